"""A node surveys others about silent origins, and ingests their events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, cast

import attrs
import msgpack
import pytest
from twisted.internet.defer import succeed
from twisted.internet.task import Clock

from broker.cluster.gateway_rotation import MOST_GATEWAYS
from broker.cluster.known_peers import PEER_EXPIRY
from broker.cluster.network_question import GatheredAnswers
from broker.errors import NotConnected
from broker.event.gap_reason import LOST, UNREACHABLE
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent
from broker.recovery.archive_access import Coverage
from broker.recovery.remote_logs import MAX_NODES, REACHED, RemoteLogs
from broker.recovery.silent_origin import (
    BATCH_EVENTS,
    CHECK_INTERVAL,
    FIRST_RETRY,
    MAX_RETRY,
    SilentOriginRecovery,
)
from tests.delivery.test_recovered_feeds import far

PATIENCE = 60.0


class Flows:
    """The position is the fifth place of `far`."""

    def __init__(self) -> None:
        self.marks: dict[str, Mark] = {"far": (1, 5)}
        self.has_no_interest = False
        self.linked = {"c/b"}
        self.sent_by: list[str] = []
        self.reason = UNREACHABLE
        """Of the expected losses."""
        self.pages: list[int] = []
        """Number of events of each page."""
        self.out: list[Any] = []
        """Offsets of events, and (first, last) of losses."""

    def unreachable_positions(self) -> Mapping[str, Mark]:
        return dict(self.marks)

    def positions_of_new(self, origins: Collection[str]) -> Mapping[str, Mark]:
        return {}

    def position_of(self, origin: str) -> Mark | None:
        return self.marks.get(origin)

    def list_origins(self) -> Collection[str]:
        return {"own", *self.marks}

    def furthest_place(self, origin: str) -> Mark | None:
        return self.marks.get(origin)

    def is_log_reachable(self, origin: str) -> bool:
        return origin == "own"

    def sender_addresses(self, origin: str) -> Sequence[str]:
        return self.sent_by if origin == "far" else []

    def reachable_nodes(self) -> Collection[str]:
        return self.linked

    def ingest_page(
        self, origin: str, after: Mark, upto: Mark, events: Sequence[LoggedEvent]
    ) -> None:
        assert self.marks[origin] == after and events[-1].mark == upto
        self.marks[origin] = upto
        self.pages.append(len(events))
        self.out += [each.offset for each in events]

    def is_gone(self, origin: str) -> bool:
        return False

    def give_up_range(self, origin: str, after: Mark, upto: Mark, reason: str) -> None:
        assert self.marks[origin] == after and reason == self.reason
        self.marks[origin] = upto
        self.out.append((after[1] + 1, upto[1]))


@attrs.define
class Context:
    clock: Clock = attrs.field(factory=Clock)
    patience: float = PATIENCE
    revoked: dict[str, Mark] = attrs.field(factory=dict)

    def flows_of(self, flow: str) -> Sequence[str]:
        return [flow]

    def sleep(self, seconds: float) -> Any:
        raise AssertionError("a page is in the log at once")


class Setting:
    """Other nodes and an archive with events of `far`."""

    def __init__(self, archive: Coverage | None = None) -> None:
        self.flows = Flows()
        self.context = Context()
        self.logs: defaultdict[str, list[int]] = defaultdict(list)
        """Offsets by node; `archive` has some too."""
        self.said: dict[str, bytes] = {}
        """Malformed or special answers by node."""
        self.silent: list[str] = []
        self.here: set[str] = set()
        """Nodes with the origin's log."""
        self.broken: set[str] = set()
        """Nodes with unreadable pages."""
        self.before_page: Callable[[], object] = lambda: None
        self.asked: list[float] = []
        self.read: list[str] = []
        self.reading = 0
        self.answer: Callable[[bytes], Any] | None = None
        self.archive = None if archive is None else _Archive(archive)
        others = RemoteLogs(self.flows, cast(Any, self), lambda origin: cast(Any, self))
        self.it = SilentOriginRecovery(
            self.flows, others, cast(Any, self.archive), cast(Any, self.context)
        )

    # Replaces `NetworkQuestions`.

    def register_answerer(self, what: str, answerer: Callable[[bytes], Any]) -> None:
        assert what == REACHED
        self.answer = answerer

    own_address = "c/own"

    async def ask_all_nodes(
        self, what: str, content: bytes, rank: int = 0, *, gateways: int = 1
    ) -> GatheredAnswers:
        assert (what, msgpack.unpackb(content), gateways) == (REACHED, ["far"], MOST_GATEWAYS)
        self.asked.append(self.context.clock.seconds())
        answers = {
            f"c/{node}": msgpack.packb([("far", (1, max(offsets)), node in self.here, [])])
            for node, offsets in self.logs.items()
            if node != "archive"
        }
        return GatheredAnswers({**answers, **self.said}, list(self.silent))

    # Replaces `OriginReader`.

    async def read_log(self, address: Any, after: Mark, upto: Mark) -> AsyncIterator[Any]:
        async for events in self._pages(address.node, after, upto):
            yield events

    async def read_replica(self, address: Any, after: Mark, upto: Mark) -> AsyncIterator[Any]:
        async for events in self._pages(f"{address.node}-replica", after, upto):
            yield events

    async def read_archive(self, after: Mark, upto: Mark) -> AsyncIterator[Any]:
        async for events in self._pages("archive", after, upto):
            yield events

    async def _pages(self, name: str, after: Mark, upto: Mark) -> AsyncIterator[Any]:
        self.read.append(name)
        if name in self.broken:
            raise NotConnected("it is away")
        self.reading += 1
        try:
            for offset in self.logs.get(name, []):
                if after[1] < offset <= upto[1]:
                    self.before_page()
                    yield [far(offset)]
        finally:
            self.reading -= 1

    # ----------

    def wait(self, seconds: float = PATIENCE + 2 * CHECK_INTERVAL) -> list[Any]:
        """Run the job each second. Returns all output since the start."""
        for _ in range(round(seconds)):
            self.context.clock.advance(1.0)
            self.it.run_if_due()
        return self.flows.out


class _Archive:
    def __init__(self, told: Coverage) -> None:
        self._told = told
        self.asked = 0

    def get_coverage(self, after: Mapping[str, Mark]) -> Any:
        self.asked += 1
        return succeed(self._told)


def test_the_archive_is_asked_only_if_a_node_has_got_further() -> None:
    it = Setting(Coverage(is_known=True))
    it.logs["b"] = [5]
    it.wait()
    assert it.archive is not None and it.archive.asked == 0 and len(it.asked) == 1
    it.logs["b"] = [6]
    assert it.wait(2 * FIRST_RETRY) == [6] and it.archive.asked == 1


def test_events_of_several_nodes_come_once_and_in_order() -> None:
    it = Setting()
    it.logs |= {"b": [4, 6, 8, 9], "d": [7, 8, 10], "d-replica": [11], "e": [5]}
    it.logs["d"].append(12)
    assert it.wait() == [*range(6, 13)]
    assert (it.it.events_found, it.it.places_lost) == (7, 0)
    assert "e" not in it.read


def test_a_silent_origin_is_surveyed_with_backoff() -> None:
    it = Setting()
    assert it.wait(PATIENCE) == [] and it.asked == []
    it.wait(200.0)
    first = it.asked[0]
    assert PATIENCE <= first <= PATIENCE + 2 * CHECK_INTERVAL
    assert [at - first for at in it.asked] == [0.0, FIRST_RETRY, 3 * FIRST_RETRY, 7 * FIRST_RETRY]
    it.flows.marks["far"] = (1, 6)
    it.wait(PATIENCE)
    assert len(it.asked) == 4
    it.wait(2 * CHECK_INTERVAL)
    assert len(it.asked) == 5, "it was heard of, and is silent again"


def test_an_unanswered_survey_is_repeated_when_the_node_is_reachable() -> None:
    it = Setting()
    it.silent.append("c/d")
    it.wait(200.0)
    count = len(it.asked)
    it.flows.linked.add("c/d")
    it.silent.clear()
    it.wait(2 * CHECK_INTERVAL)
    assert len(it.asked) == count + 1
    for _ in range(4):
        # A node that has answered may come and go.
        it.flows.linked ^= {"c/d"}
        it.wait(2 * CHECK_INTERVAL)
    assert len(it.asked) == count + 1


def test_nothing_is_surveyed_without_subscriptions() -> None:
    it = Setting()
    it.flows.has_no_interest = True
    it.logs["b"] = [6]
    assert it.wait() == [] and it.asked == []
    it.flows.has_no_interest = False
    assert it.wait(PATIENCE) == [] and it.asked == []
    assert it.wait(2 * CHECK_INTERVAL) == [6]


def test_no_range_of_an_origin_with_a_log_at_a_node_is_given_up() -> None:
    """The node that says so may be wrong, so the events of others are taken."""
    it = Setting()
    it.logs["b"] = [6, 8]
    it.here.add("b")
    assert it.wait() == [6]


def test_places_of_a_revoked_log_behind_its_last_trusted_one_are_a_gap() -> None:
    it = Setting()
    it.logs["b"] = [6, 8]
    it.here.add("b")
    it.said["c/d"] = msgpack.packb([("far", (1, 11), False, [])])
    it.flows.reason = LOST
    it.context.revoked["far"] = (1, 8)
    assert it.wait() == [6]
    it.logs["b"] = [6, 7, 8]
    assert it.wait(PATIENCE + 8 * FIRST_RETRY) == [6, 7, 8, (9, 11)]


def test_a_range_that_no_node_has_is_a_gap() -> None:
    it = Setting()
    it.logs["b"] = [6, 9]
    # An event that was refused there is not in its page.
    it.said["c/d"] = msgpack.packb([("far", (1, 11), False, ["c/b"])])
    assert it.wait() == [6, (7, 8), 9, (10, 11)]
    assert (it.it.events_found, it.it.places_lost) == (2, 4)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\xc1", b"\x91\x01", msgpack.packb(7)),
        *(msgpack.packb([("far", 7, False, [])]), msgpack.packb([("far", (1, 6), False, [7])])),
    ],
)
def test_an_unanswered_survey_defers_the_gap(content: bytes) -> None:
    it = Setting()
    it.logs["b"] = [6, 9]
    it.said["c/d"] = content
    assert it.wait() == [6]
    it.said.clear()
    it.silent.append("c/d")
    assert it.wait() == [6]
    it.silent.clear()
    assert it.wait(8 * FIRST_RETRY) == [6, (7, 8), 9]


def test_unreadable_pages_defer_the_gap() -> None:
    it = Setting()
    it.logs |= {"b": [6, 9], "d": [8]}
    it.broken.add("d")
    assert it.wait() == [6]
    it.broken.clear()
    assert it.wait(8 * FIRST_RETRY) == [6, (7, 7), 8, 9]


def test_only_the_furthest_nodes_are_read() -> None:
    it = Setting()
    it.logs |= {f"n{number}": [6, 9 + number] for number in range(MAX_NODES)}
    it.logs["d"] = [8]
    assert it.wait()[:3] == [6, (7, 8), 9]
    assert "d" not in it.read


@pytest.mark.parametrize("knows", ["own", "other"])
def test_an_unseen_origin_node_defers_the_gap(knows: str) -> None:
    it = Setting()
    it.logs["b"] = [6, 9]
    if knows == "own":
        it.flows.sent_by.append("ship/f")
    else:
        it.said["c/d"] = msgpack.packb([("far", (1, 6), False, ["ship/f"])])
    assert it.wait(PEER_EXPIRY - 2 * CHECK_INTERVAL) == [6]
    assert it.wait(PEER_EXPIRY + MAX_RETRY) == [6, (7, 8), 9]


def test_archived_events_are_merged() -> None:
    it = Setting(Coverage({"far": [((1, 7), (1, 8))]}, is_known=True))
    it.logs |= {"b": [6, 9], "archive": [8]}
    assert it.wait() == [6, (7, 7), 8, 9]


@pytest.mark.parametrize(
    "told",
    [Coverage(), Coverage(repairable=frozenset({"far"}), is_known=True)],
    ids=["away", "heals"],
)
def test_an_unreadable_archive_defers_the_gap(told: Coverage) -> None:
    it = Setting(told)
    it.logs |= {"b": [6, 9], "archive": [8]}
    assert it.wait() == [6]
    assert "archive" not in it.read


def test_recovery_stops_when_the_origin_sends_again() -> None:
    it = Setting()
    it.logs["b"] = [6, 7]
    it.before_page = lambda: it.flows.marks.update(far=(1, 7))
    assert it.wait() == []
    assert (it.it.events_found, it.reading) == (0, 0)


def test_an_unfinished_read_is_closed() -> None:
    it = Setting()
    it.logs["b"] = [6, 9, 10]
    it.silent.append("c/d")
    assert it.wait() == [6]
    assert it.reading == 0


def test_pages_are_bounded() -> None:
    it = Setting()
    it.logs["b"] = list(range(6, 6 + 2 * BATCH_EVENTS + 1))
    assert it.wait() == it.logs["b"]
    assert it.flows.pages == [BATCH_EVENTS, BATCH_EVENTS, 1]


def test_an_empty_epoch_is_no_gap() -> None:
    it = Setting()
    it.logs["b"] = [6, 7]
    it.said["c/d"] = msgpack.packb([("far", (2, 7), False, [])])
    assert it.wait() == [6, 7]
    assert it.it.places_lost == 0


def test_a_node_answers_with_its_places_and_reachable_logs() -> None:
    it = Setting()
    it.flows.sent_by.append("c/f")
    assert it.answer is not None
    content, rank = it.answer(msgpack.packb(["far", "own", "other"]))
    assert msgpack.unpackb(content) == [["far", [1, 5], False, ["c/f"]], ["own", [0, 0], True, []]]
    assert rank == 0
    content, rank = it.answer(msgpack.packb(None))
    assert msgpack.unpackb(content) == [["own", [0, 0], True, []], ["far", [1, 5], False, ["c/f"]]]
    for bad in (b"", b"\xc1", msgpack.packb(7), msgpack.packb([7])):
        assert it.answer(bad) is None
