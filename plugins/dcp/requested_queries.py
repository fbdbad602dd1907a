"""The queries that a node requests of its parents, for its subscriptions and its children."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from broker.streams.queue_policy import BLOCK
from plugins.dcp.control import Query, fit_into_message

_EVERYTHING: Final = "true()"
#: Refused queries beyond it make the node request everything.
_MOST_REFUSED: Final = 16
_MOST_SHOWN: Final = 80


class RequestedQueries:
    """A query that a parent refuses is replaced by all events of its streams."""

    def __init__(self, patterns: Sequence[str], *, is_static: bool) -> None:
        """`patterns` are those of the mesh. With `is_static` the node requests everything."""
        self.own: dict[str, Query] = {}
        """Of the node's subscriptions, by key."""
        self.queues: dict[str, str] = {}
        """Queue policies of the node's subscriptions, by key."""
        self._patterns = patterns
        self._is_static = is_static
        self._refused: dict[Query, str] = {}
        """Sentences about the refusals."""

    def combine(self, of_children: Iterable[Query]) -> set[Query]:
        """Return the queries to request, and forget refusals of those that are not wanted."""
        wanted = {*self.own.values(), *of_children}
        self._refused = {each: text for each, text in self._refused.items() if each in wanted}
        if not self._fits(wanted):
            return {widen((pattern, "", ())) for pattern in self._patterns}
        return {widen(each) if each in self._refused else each for each in wanted}

    def merge_queues(self, of_children: Collection[str]) -> str:
        """Return the policy of all interest; `block` if they differ: then nothing is dropped."""
        found = {*self.queues.values(), *of_children}
        return found.pop() if len(found) == 1 else BLOCK.text

    def _fits(self, wanted: Collection[Query]) -> bool:
        is_bounded = len(self._refused) <= _MOST_REFUSED and fit_into_message(wanted)
        return is_bounded and not self._is_static

    def refuse(self, query: Query, parent: str, reason: str) -> bool:
        """Note that a parent refuses a query. Return False if it can not be replaced."""
        pattern, text, _ = query
        if text == _EVERYTHING:
            return False
        shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
        self._refused[query] = (
            f"the parent {parent} refuses the query {shown}: {reason}; all events of {pattern} are "
            "requested instead"
        )
        return True

    def find_alarms(self) -> Iterator[str]:
        yield from self._refused.values()


def widen(query: Query) -> Query:
    """Return the query for all events of the same streams."""
    return query[0], _EVERYTHING, ()
