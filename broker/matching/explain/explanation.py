"""Results of `explain` as plain content: `attrs.asdict` returns the JSON and msgpack content.

Every list and text is bounded. Fields named `more` count omitted items.
"""

from __future__ import annotations

import enum
from typing import Any

import attrs

from broker.errors import WireError


class AnswerMethod(enum.StrEnum):
    INDEX = "index"
    """The index decides, from the values of slots."""
    EVALUATION = "evaluation"
    """lxml evaluates it where a necessary condition holds, since the shape does not decide (F6)."""
    NEVER = "never"
    """No document of the shape matches, with any values."""
    ALWAYS = "always"
    """Every document of the shape matches."""


@attrs.frozen
class Comparison:
    """A comparison of a query with a literal, on the documents of some shapes."""

    operator: str
    literal: str
    paths: tuple[str, ...]
    """Paths of the compared values; none for constants."""
    more_paths: int
    constant: bool
    """True if the values are constants, so that it holds in every document of the shapes."""


@attrs.frozen
class Alternative:
    """One operand of an outermost `or`, or the whole query without one."""

    text: str
    literals: tuple[tuple[str, str], ...]
    """Pairs of operator and literal. The queries of a template differ in them."""
    access: str
    """Access method of the index: see `access_method.py`."""
    sharing: int
    """Distinct subscribed queries with this template."""


@attrs.frozen
class AlternativeAnswer:
    how: AnswerMethod
    access: str
    """As in `Alternative`, for the undecided part. Empty for `NEVER` and `ALWAYS`."""
    reasons: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    more_comparisons: int


@attrs.frozen
class ShapesExplanation:
    """Answer of the query for some shapes of a type that answer it alike."""

    type: str
    version: str
    shapes: int
    how: AnswerMethod
    alternatives: tuple[AlternativeAnswer, ...]


@attrs.frozen
class Measured:
    """Median times in seconds; None without a measurement, with the reason in `note`.

    `evaluation`: of the query on the event. `lookup`: in the index, for all queries that share its
    templates. `parsing`: reading and validating the event.
    """

    evaluation: float | None = None
    lookup: float | None = None
    parsing: float | None = None
    note: str = ""


@attrs.frozen
class FoundValue:
    """A value in the event. `path` is empty for a computed value."""

    path: str
    value: str
    holds: bool | None = None
    """Result of the comparison for this value; None without a literal to compare."""


@attrs.frozen
class Finding:
    part: str
    holds: bool | None
    """Its boolean value; None if it was not examined."""
    at: str = ""
    """Path of the node at which it was evaluated, if any."""
    operator: str = ""
    literal: str = ""
    values: tuple[FoundValue, ...] = ()
    more: int = 0
    note: str = ""
    """The condition that failed, or the node that the event has not."""
    parts: tuple[Finding, ...] = ()


@attrs.frozen
class EventExplanation:
    refused: WireError | None = None
    """The error of an invalid event. Then all other fields have their defaults."""
    type: str = ""
    version: str = ""
    stream: str = ""
    security_level: str = ""
    client_id: str = ""
    timestamp: int = 0
    incarnation: int = 0
    sequence_number: int = 0
    recognised: bool | None = None
    """True if a known shape fits. None if shapes are withheld."""
    matches: bool | None = None
    """None if the query is not evaluated; `note` has the reason."""
    note: str = ""
    finding: Finding | None = None


@attrs.frozen
class Explanation:
    """Answer of an engine to a query, and the result on an event if one is given (N7)."""

    engine: str
    query: str
    estimated_cost: int
    """Nodes that lxml visits in a document of a thousand nodes (F13)."""
    everything: bool
    """True for the query `true()`, which is not matched at all."""
    alternatives: tuple[Alternative, ...] = ()
    types: tuple[ShapesExplanation, ...] = ()
    more_shapes: int = 0
    """Shapes that were not examined within the time limit."""
    withheld: bool = False
    """True if shapes are omitted, since they reveal events that the client may not read."""
    measured: Measured = Measured()
    event: EventExplanation | None = None

    def as_dict(self) -> dict[str, Any]:
        content: dict[str, Any] = attrs.asdict(
            self,
            value_serializer=lambda _, __, value: (
                str(value) if isinstance(value, AnswerMethod) else value
            ),
        )
        return content
