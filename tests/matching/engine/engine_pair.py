"""The default engine and the reference engine, compared at each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broker.dtd.dtd import Dtd
from broker.event.envelope import Liveness
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted, Refused, Verdict
from broker.matching.query.query import parse_query
from broker.matching.reference_matcher import ReferenceMatcher
from broker.matching.shape.bounds import ShapeBounds
from broker.matching.switch import Switch
from tests.matching.conftest import KnownDtds
from tests.matching.unlimited import ANY_COST


class EnginePair:
    """Both engines with equal inputs. Each result must equal the reference's."""

    def __init__(
        self, *dtds: Dtd, clock: Callable[[], float] = lambda: 0.0, **options: Any
    ) -> None:
        options = {"query_limits": ANY_COST, **options}
        self.dtds = KnownDtds(*dtds)
        self.switch = Switch(self.dtds, clock=clock, **options)
        self.reference = ReferenceMatcher(self.dtds, clock=clock, **options)
        self._engines: tuple[Any, ...] = (self.switch, self.reference)
        self.suspended: set[int] = set()
        # Varying attributes become slots earlier, so that few documents suffice.
        self.switch._shapes._bounds = ShapeBounds(max_variants=2)
        self.queries: dict[int, str] = {}
        self.matched = 0
        """Number of matches so far."""

    def subscribe(
        self, query: str, pattern: str = ">", namespaces: Mapping[str, str] | None = None
    ) -> int:
        """Subscribe at both; return the common number."""
        parsed = parse_query(query, namespaces, ANY_COST)
        streams = StreamPattern.parse(pattern)
        number = self.switch.subscribe(streams, parsed)
        assert self.reference.subscribe(streams, parsed) == number
        self.queries[number] = query
        return number

    def unsubscribe(self, number: int) -> None:
        self.switch.unsubscribe(number)
        self.reference.unsubscribe(number)

    def match(self, documents: Sequence[bytes]) -> list[Verdict]:
        """Return the verdicts, after checking that they are equal."""
        verdicts = self.switch.match(documents)
        expected = self.reference.match(documents)
        assert len(verdicts) == len(expected)
        for document, ours, theirs in zip(documents, verdicts, expected, strict=True):
            assert to_comparable(ours) == to_comparable(theirs), (
                document,
                self._differing_queries(ours, theirs),
            )
            if isinstance(ours, Accepted):
                self.matched += len(ours.subscriptions)
        broken = [{number for number, _ in each.take_suspended()} for each in self._engines]
        assert broken[0] == broken[1], [self.queries[n] for n in broken[0] ^ broken[1]]
        self.suspended |= broken[0]
        return verdicts

    def select(self, number: int, documents: Sequence[bytes], liveness: Liveness) -> list[bool]:
        selected = self.switch.select(number, documents, liveness)
        expected = self.reference.select(number, documents, liveness)
        assert selected == expected, (self.queries[number], documents)
        return selected

    def _differing_queries(self, ours: Verdict, theirs: Verdict) -> list[str]:
        if not (isinstance(ours, Accepted) and isinstance(theirs, Accepted)):
            return []
        differing = {*ours.subscriptions} ^ {*theirs.subscriptions}
        return [self.queries[number] for number in sorted(differing)]

    def count(self, name: str) -> int:
        """Return a statistic of the default engine."""
        return int(self.switch.statistics().get(name, 0))


def to_comparable(verdict: Verdict) -> Any:
    """Return the verdict's content as comparable data."""
    if isinstance(verdict, Refused):
        error = verdict.error
        return type(error), error.code, error.text, error.line, error.column
    return verdict
