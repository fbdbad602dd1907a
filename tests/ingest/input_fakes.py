from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import attrs
from twisted.internet.defer import Deferred

from broker.config import Settings
from broker.config.settings import TypeSettings
from broker.dtd.reference import DtdReference
from broker.errors import (
    BrokerError,
    LogUnavailable,
    NotValid,
)
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.identity.identity import anonymous_identity
from broker.ingest.input import Input
from broker.ingest.publisher import Publisher
from broker.ingest.validation_policy import ValidationPolicy
from broker.log.deduplication import Deduplication
from broker.log.logged_event import LoggedEvent
from broker.matching.contract import NO_VARIANTS, Accepted, Refused, TypeMissing, Verdict
from broker.wire.event_batch import Batch
from broker.wire.messages import NotPublished, Published

ODD = DtdReference("odd", "1.0")


class FakeMatcher:
    """The document names its verdict: `NUMBER`, `refuse` or `odd NUMBER`."""

    def __init__(self) -> None:
        self.known: set[DtdReference] = set()
        self.calls: list[int] = []
        """Documents of each call."""
        self.fitting = 1_000_000
        """Documents that fit into a time limit."""

    def match(
        self,
        documents: Sequence[bytes],
        seconds: float = inf,
        variants: Any = NO_VARIANTS,
        holder: str = "",
    ) -> list[Verdict]:
        if seconds < inf:
            documents = documents[: self.fitting]
        self.calls.append(len(documents))
        return [self._verdict(document, variants) for document in documents]

    def _verdict(self, document: bytes, variants: Any) -> Verdict:
        words = document.decode().split()
        if words[0] == "refuse":
            return Refused(NotValid("no"))
        if words[0] == "odd" and ODD not in self.known and ODD not in variants:
            return TypeMissing(ODD, "pointer")
        event_id = EventId("alice", 1, int(words[-1]), 1)
        header = Header(event_id, "s", words[0], "1.0", SecurityLevel.LOW, Liveness.LIVE)
        return Accepted(header, (len(words),))


class FakeLog:
    origin = "n"

    def __init__(self) -> None:
        self.deduplication = Deduplication(lambda _: None, 64)
        self.waiting: list[tuple[list[LoggedEvent], Any]] = []
        self.resting = False
        self._next = 1

    def check_available(self) -> None:
        if self.resting:
            raise LogUnavailable("resting")

    def append(self, entries: Sequence[tuple[bytes, int, bytes]], done: Any) -> None:
        events = []
        for record, level, document in entries:
            events.append(LoggedEvent(1, self._next, 0, level, record, document, "n", self._next))
            self._next += 1
        self.waiting.append((events, done))

    def commit(self) -> None:
        waiting, self.waiting = self.waiting, []
        for events, done in waiting:
            done(events)

    def fail(self) -> None:
        waiting, self.waiting = self.waiting, []
        self.deduplication.clear()
        self.resting = True
        for _, done in waiting:
            done(LogUnavailable("no room"))


class FakeDtds:
    def __init__(self) -> None:
        self.asked: list[Deferred[Any]] = []

    def lookup(self, reference: DtdReference, hint: Any) -> Deferred[Any]:
        self.asked.append(Deferred())
        return self.asked[-1]


@attrs.define
class FakeQuarantine:
    kept: list[tuple[bytes, str]] = attrs.field(factory=list)

    def add_document(self, document: bytes, error: BrokerError, sender: str) -> None:
        self.kept.append((document, error.code))


class Setting:
    def __init__(
        self, accept_undescribed: bool = False, matcher: FakeMatcher | None = None
    ) -> None:
        self.matcher = matcher or FakeMatcher()
        self.log, self.dtds = FakeLog(), FakeDtds()
        self.quarantine = FakeQuarantine()
        types = TypeSettings("accept" if accept_undescribed else "refuse")
        settings = Settings(types=types)
        self.committed: list[tuple[list[bytes], list[tuple[int, ...]]]] = []
        fakes: dict[str, Any] = {
            "matcher": self.matcher,
            "dtds": self.dtds,
            "log": self.log,
            "quarantine": self.quarantine,
        }
        self.input = Input(
            **fakes,
            on_committed=lambda events, matches: self.committed.append(
                ([event.document for event in events], list(matches))
            ),
            wall_clock=lambda: 0,
            policy=ValidationPolicy(settings),
        )
        self.publisher, self.answers = self.join()
        self.most = 1_000
        self.taking = False

    def join(self) -> tuple[Publisher, list[Published | NotPublished]]:
        answers: list[Published | NotPublished] = []
        publisher = Publisher(
            lambda: self.take_all(publisher), anonymous_identity("alice"), 1, answers.append
        )
        return publisher, answers

    def add(self, number: int, *documents: str) -> None:
        self.publisher.add_batch(Batch(number, [document.encode() for document in documents]))

    def publish(self, number: int, *documents: str) -> None:
        self.add(number, *documents)
        self.take_all(self.publisher)

    def take_all(self, publisher: Publisher) -> None:
        """Ingest in one slice, in portions of `most` documents."""
        if self.taking:
            return
        self.taking = True
        while publisher.is_ready:
            self.input.ingest_waiting(publisher, self.most)
        self.taking = False

    @property
    def told(self) -> list[tuple[str, int]]:
        return [(type(answer).__name__, answer.batch) for answer in self.answers]

    def check(self) -> None:
        o = self.input.outcomes
        assert o.received == o.accepted + o.duplicate + o.not_taken + o.refused.total()
