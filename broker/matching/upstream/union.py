"""The union of what the links of a node want, as it is sent upstream (D12, F8, T9, A19)."""

from __future__ import annotations

from collections.abc import Hashable

import attrs

from broker.event.stream import StreamPattern
from broker.matching.query.query import Query
from broker.matching.upstream.forest import Forest
from broker.matching.upstream.want import Want
from broker.matching.upstream.widening import widened

#: Queries that are sent upstream; more are widened.
MAX_QUERIES = 1000


@attrs.frozen(slots=True)
class Delta:
    """A change of what is sent: first `send`, then `withdraw`, so that nothing is missed."""

    send: tuple[Want, ...] = ()
    withdraw: tuple[Want, ...] = ()


class Union:
    """What is wanted, each under the key of who wants it, and the fewest queries that say so.

    Covered queries are not sent, and are sent again when what covered them goes. With more than
    `max_queries` to send, they are widened (`widening.py`), never narrowed. What is sent depends on
    what is wanted alone, and not on what was (A19). It holds as much as is wanted: about 8 kB for
    each different query.
    """

    def __init__(self, max_queries: int = MAX_QUERIES) -> None:
        if max_queries < 1:
            raise ValueError("max_queries must be 1 or more")
        self._most = max_queries
        self._wanted: dict[Hashable, Want] = {}
        self._keys: dict[Want, int] = {}
        self._forest = Forest()
        self._sent: frozenset[Want] | None = None
        self._seed: frozenset[Want] = frozenset()

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def sent(self) -> frozenset[Want]:
        """What is asked of the upstream now."""
        return frozenset(self._forest.roots) if self._sent is None else self._sent

    @property
    def widened(self) -> bool:
        """Whether more is asked for than is wanted."""
        return self._sent is not None

    def add(self, key: Hashable, pattern: StreamPattern, query: Query) -> Delta:
        """Someone wants a query. Raises `ValueError` if the key is in use."""
        if key in self._wanted:
            raise ValueError(f"{key!r} wants something already")
        want = self._wanted[key] = Want(pattern, query)
        self._keys[want] = self._keys.get(want, 0) + 1
        if self._keys[want] > 1:
            return Delta()
        self._forest.add(want)
        return self._delta()

    def remove(self, key: Hashable) -> Delta:
        """Who had this key does not want it any more. Raises `KeyError`."""
        want = self._wanted.pop(key)
        self._keys[want] -= 1
        if self._keys[want]:
            return Delta()
        del self._keys[want]
        self._forest.remove(want)
        return self._delta()

    def _delta(self) -> Delta:
        appeared, gone = self._forest.changes()
        if self._sent is None and len(self._forest.roots) <= self._most:
            return _ordered(appeared, gone)
        if self._sent is None:
            before = frozenset(self._forest.roots) - appeared | gone
        else:
            before = self._sent
        self._sent = self._widened()
        after = self.sent
        return _ordered(after - before, before - after)

    def _widened(self) -> frozenset[Want] | None:
        roots = self._forest.roots
        if len(roots) <= self._most:
            return None
        fewer = widened({want: node.form for want, node in roots.items()}, self._most)
        if self._sent is not None and fewer == self._seed:
            return self._sent
        self._seed = fewer
        # Widened queries may cover others, and each other.
        return frozenset(Forest(sorted(fewer, key=lambda want: want.rank)).roots)


def _ordered(send: frozenset[Want], withdraw: frozenset[Want]) -> Delta:
    return Delta(
        tuple(sorted(send, key=lambda want: want.rank)),
        tuple(sorted(withdraw, key=lambda want: want.rank)),
    )
