"""Limits of the analysis of queries on a DTD. Beyond them a query counts as satisfiable."""

from __future__ import annotations

from typing import Final

#: Label paths of one document. Beyond it elements of one name share a schema node.
MAX_NODES: Final = 1000
#: Pairs of parent and child. A DTD with more is not analysed.
MAX_EDGES: Final = 20_000
#: Payloads of one type. A type with more is not analysed.
MAX_PAYLOADS: Final = 16
#: Schema nodes visited for one query on one DTD, a few hundred nanoseconds each.
MAX_WORK: Final = 5_000
#: Known values of an attribute. With more it may have any value.
MAX_VALUES: Final = 256
