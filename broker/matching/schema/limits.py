"""Bounds of what is computed about a DTD and a query on it. Beyond them the answer is "maybe"."""

from __future__ import annotations

from typing import Final

#: Label paths of one document; with more, elements of one name are one node.
MAX_PLACES: Final = 1000
#: Pairs of nodes, one within the other; a DTD with more is not looked into.
MAX_EDGES: Final = 20_000
#: Payloads that one type may have; with more it is not looked into.
MAX_PAYLOADS: Final = 16
#: Places looked at for one query on one DTD, a few hundred nanoseconds each.
MAX_WORK: Final = 5_000
#: Values that an attribute is known by; with more it may have any value.
MAX_VALUES: Final = 256
