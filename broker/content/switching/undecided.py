"""A recognised document that takes more than its shape's plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.content.contract import Accepted
from broker.content.shape.shape import Shape
from broker.content.switching.entry import Entry
from broker.content.switching.plan import ShapePlan


class Undecided(NamedTuple):
    """A recognised document with queries that its shape's plan does not decide."""

    shape: Shape
    values: Sequence[bytes]
    plan: ShapePlan
    queries: Sequence[Entry]
    decided: Accepted
