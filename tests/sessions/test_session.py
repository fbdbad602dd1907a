from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, cast

import pytest
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from broker.errors import BadQuery, BrokerError, ProtocolError
from broker.identity.identity import anonymous_identity
from broker.ingest.publisher import Publisher
from broker.sessions.session import Session, SessionServices
from broker.sessions.time_slices import MAX_DOCUMENTS, SLICE_SECONDS
from broker.wire import messages
from broker.wire.codec import Message
from broker.wire.event_batch import encode_batch
from broker.wire.messages import Acknowledge, Ended, Goodbye, Refuse, Subscribe, Unsubscribe

#: In seconds.
SUBSCRIBE = SLICE_SECONDS / 10
DOCUMENT = SLICE_SECONDS / 100


class FakeLink:
    """`from_within` arrives while credit is returned."""

    def __init__(self) -> None:
        self.receiver: Any = None
        self.failure: BrokerError | None = None
        self.writable = True
        self.sent: list[Message] = []
        self.consumed_messages = 0
        self.closed = False
        self.from_within: list[bytes] = []

    def send(self, batch: Sequence[bytes], consumed: int = 0) -> None:
        self.sent += map(messages.decode, batch)
        if consumed:
            self.consumed(consumed)

    def consumed(self, count: int) -> None:
        self.consumed_messages += count
        came, self.from_within = self.from_within, []
        if came:
            self.receiver.messages_received("node", came)

    def close(self) -> None:
        self.closed = True


class Node:
    """Calls take time, and are recorded by time slice."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.turns: list[list[Any]] = [[]]
        self.ended = 0
        self.broken = False

    def _does(self, what: Any, seconds: float) -> None:
        self.turns[-1].append(what)
        self.clock.rightNow += seconds

    def subscribe(self, profile: Any, wanted: Subscribe, confirm: Callable[..., object]) -> None:
        self._does(wanted.number, SUBSCRIBE)
        if self.broken:
            raise KeyError("a mistake of ours")
        raise BadQuery("no")

    def unsubscribe(self, profile: Any, number: int, *, forget: bool) -> None:
        self._does(-number, SUBSCRIBE)

    def acknowledge(self, profile: Any, number: int, position: Any) -> None:
        self._does("acknowledged", 0.0)

    def ingest_waiting(self, publisher: Publisher, most: int, seconds: float) -> None:
        if DOCUMENT:
            most = min(most, max(1, ceil(seconds / DOCUMENT)))
        parts = publisher.next_parts(most)
        documents = [document for part in parts for document in part.documents]
        self._does(documents, DOCUMENT * len(documents))
        for part in parts:
            part.submission.appended = part.stop
            if not part.submission.remaining:
                publisher.remove_submission(part.submission)

    def discard_waiting(self, publisher: Publisher) -> None:
        publisher.waiting.clear()
        self._does("left", 0.0)

    def end_session(self, profile: Any) -> None:
        self.ended += 1

    @property
    def done(self) -> list[Any]:
        return [each for turn in self.turns for each in turn]


class Setting:
    def __init__(self) -> None:
        self.clock = Clock()
        self.link, self.node = FakeLink(), Node(self.clock)
        node = cast(Any, self.node)
        services = SessionServices(node, node, {}, lambda session: None, self.clock)
        self.session = Session(
            anonymous_identity("alice"),
            1,
            b"",
            cast(Any, self.link),
            services,
            lambda _: cast(Any, None),
        )
        self.link.receiver = self.session

    def receive(self, *wanted: Message | bytes) -> None:
        self.session.messages_received(
            "alice", [each if isinstance(each, bytes) else messages.encode(each) for each in wanted]
        )

    def next_turn(self) -> None:
        """Calls that these schedule do not run."""
        due = [call for call in self.clock.calls if call.getTime() <= self.clock.seconds()]
        assert len(due) == len(self.clock.calls) == 1
        self.node.turns.append([])
        self.clock.calls.clear()
        due[0].func(*due[0].args, **due[0].kw)

    def finish(self) -> None:
        while self.clock.calls:
            self.next_turn()


def subscribe(number: int) -> Subscribe:
    return Subscribe(number, ">", "true()", {}, "", "new", (), 0)


def test_slow_subscriptions_run_in_several_slices_and_in_order() -> None:
    setting = Setting()
    setting.receive(*map(subscribe, range(1, 26)))
    assert setting.node.done == [*range(1, 11)]
    assert setting.link.consumed_messages == 10
    setting.receive(encode_batch(1, [b"a"]), subscribe(26), Unsubscribe(3, False))
    assert setting.node.done == [*range(1, 11)]
    setting.finish()
    assert setting.node.turns == [
        [*range(1, 11)],
        [*range(11, 21)],
        [*range(21, 26), [b"a"], 26, -3],
    ]
    assert [each.number for each in setting.link.sent if isinstance(each, Ended)] == [
        *range(1, 27),
        3,
    ]
    assert setting.link.consumed_messages == 27


def test_slow_documents_are_ingested_in_several_slices() -> None:
    setting = Setting()
    batches = [encode_batch(number, [b"%d" % number] * 32) for number in range(1, 11)]
    setting.receive(*batches, Goodbye())
    setting.finish()
    *published, left = setting.node.done
    assert [document for portion in published for document in portion] == [
        b"%d" % number for number in range(1, 11) for _ in range(32)
    ]
    assert left == "left"
    # A slice takes 100 documents, at most 125.
    counts = [sum(map(len, turn)) for turn in setting.node.turns]
    assert all(100 <= count <= 126 for count in counts[:-1])
    assert len(counts) == 4


def test_fast_documents_are_ingested_in_one_slice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.sessions.test_session.DOCUMENT", 0.0)
    setting = Setting()
    setting.receive(*(encode_batch(number, [b"x"] * 32) for number in range(1, 101)))
    assert [len(documents) for documents in setting.node.done] == [
        MAX_DOCUMENTS,
        3200 - MAX_DOCUMENTS,
    ]
    assert not setting.clock.calls


def test_a_large_batch_is_ingested_in_several_slices() -> None:
    setting = Setting()
    setting.receive(encode_batch(1, [b"x"] * 1_000), encode_batch(2, [b"y"]), subscribe(1))
    setting.finish()
    counts = [sum(map(len, turn)) for turn in setting.node.turns[:-1]]
    assert len(counts) in (8, 9) and all(100 <= count <= 126 for count in counts)
    *portions, number = setting.node.done
    assert [document for portion in portions for document in portion] == [b"x"] * 1_000 + [b"y"]
    assert number == 1


def test_a_slice_ends_in_time_after_any_number_of_fast_documents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = Setting()
    monkeypatch.setattr("tests.sessions.test_session.DOCUMENT", 0.0)
    setting.receive(encode_batch(1, [b"x"] * 1_000))
    assert len(setting.node.turns) == 1
    monkeypatch.setattr("tests.sessions.test_session.DOCUMENT", SLICE_SECONDS / 10)
    setting.receive(encode_batch(2, [b"x"] * 1_000))
    setting.finish()
    assert {sum(map(len, turn)) for turn in setting.node.turns[1:-1]} <= {10, 11, 12, 13}


def test_messages_that_arrive_during_a_slice_wait_behind_the_others() -> None:
    setting = Setting()
    setting.link.from_within = [messages.encode(subscribe(3))]
    setting.receive(subscribe(1), subscribe(2))
    assert setting.node.done == [1, 2, 3]


def test_messages_behind_the_end_of_a_session_are_ignored() -> None:
    setting = Setting()
    setting.receive(*map(subscribe, range(1, 11)), Goodbye(), subscribe(12))
    setting.receive(subscribe(13))
    setting.finish()
    assert setting.node.done == [*range(1, 11), "left"]
    assert setting.link.closed
    assert setting.link.consumed_messages == 10


def test_a_session_ended_by_the_node_drops_waiting_messages() -> None:
    setting = Setting()
    setting.receive(*map(subscribe, range(1, 30)))
    setting.session.end(None)
    setting.finish()
    assert setting.node.done == [*range(1, 11), "left"]


@pytest.mark.parametrize("bad", [b"", b"\x10", b"\xff", messages.encode(Ended(1, ("", "", 0, 0)))])
def test_a_malformed_message_ends_the_session_in_any_slice(bad: bytes) -> None:
    for before in (0, 15):
        setting = Setting()
        setting.receive(*map(subscribe, range(1, before + 1)), bad, subscribe(99))
        setting.finish()
        assert setting.node.done == [*range(1, before + 1), "left"]
        assert isinstance(setting.session.end_reason, ProtocolError)
        assert isinstance(setting.link.sent[-1], Refuse)


def test_an_internal_error_in_a_later_slice_ends_the_session_and_is_logged() -> None:
    setting = Setting()
    setting.receive(*map(subscribe, range(1, 30)))
    setting.node.broken = True
    with capturedLogs() as logged:
        setting.finish()
    assert setting.node.done == [*range(1, 12), "left"]
    assert isinstance(setting.session.end_reason, ProtocolError)
    assert [each["log_failure"].type for each in logged if "log_failure" in each] == [KeyError]


def test_acknowledgements_take_one_slice() -> None:
    setting = Setting()
    setting.receive(*[Acknowledge(((1, ()),))] * 500)
    assert setting.node.done == ["acknowledged"] * 500
    assert not setting.clock.calls
