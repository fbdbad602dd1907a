from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf
from typing import Any, cast

import pytest
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from broker.errors import BadQuery, ProtocolError, UnknownType
from broker.identity.identity import anonymous_identity
from broker.matching.contract import NO_VARIANTS, Verdict
from broker.sessions.session import Session, SessionServices
from broker.sessions.time_slices import MAX_SLICE_SECONDS, SLICE_SECONDS, TimeSlices
from broker.wire import messages
from broker.wire.codec import Message
from broker.wire.event_batch import encode_batch
from broker.wire.messages import Ended, NotPublished, Published, Subscribe
from tests.ingest.input_fakes import ODD, FakeMatcher
from tests.ingest.input_fakes import Setting as InputSetting

#: Seconds of an expensive document.
DEAR = 0.001
#: The last document may exceed the limit.
LONGEST = MAX_SLICE_SECONDS + 2 * DEAR


class SlowMatcher(FakeMatcher):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.seconds = DEAR
        self.broken = False

    def match(
        self,
        documents: Sequence[bytes],
        seconds: float = inf,
        variants: Any = NO_VARIANTS,
        holder: str = "",
    ) -> list[Verdict]:
        if self.broken:
            raise KeyError("a mistake of ours")
        count = min(max(1, ceil(seconds / self.seconds)), len(documents))
        self.clock.rightNow += self.seconds * count
        return super().match(documents[:count])


class FakeDriver:
    def __init__(self) -> None:
        self.receiver: Any = None
        self.failure = None
        self.writable = True
        self.sent: list[Message] = []
        self.consumed_messages = 0

    def send(self, batch: Sequence[bytes], consumed: int = 0) -> None:
        self.sent += map(messages.decode, batch)
        if consumed:
            self.consumed(consumed)

    def consumed(self, count: int) -> None:
        self.consumed_messages += count

    def close(self) -> None:
        pass


class RefusingSubscriptions:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.asked: list[float] = []

    def subscribe(self, profile: Any, wanted: Subscribe, confirm: Any) -> None:
        self.asked.append(self.clock.seconds())
        raise BadQuery("no")

    def end_session(self, profile: Any) -> None:
        pass


class Setting(InputSetting):
    matcher: SlowMatcher

    def __init__(self) -> None:
        self.clock = Clock()
        super().__init__(matcher=SlowMatcher(self.clock))
        self.subscriptions = RefusingSubscriptions(self.clock)
        self.turns: list[float] = []
        """In seconds."""

    def session(self) -> tuple[Session, FakeDriver]:
        driver = FakeDriver()
        services = SessionServices(
            self.input, cast(Any, self.subscriptions), {}, lambda session: None, self.clock
        )
        session = Session(
            anonymous_identity("alice"),
            1,
            b"",
            cast(Any, driver),
            services,
            lambda _: cast(Any, None),
        )
        return session, driver

    def receive(self, session: Session, *received: bytes) -> None:
        began = self.clock.seconds()
        session.messages_received("alice", received)
        self.turns.append(self.clock.seconds() - began)

    def next_turn(self) -> None:
        call = self.clock.calls.pop(0)
        began = self.clock.seconds()
        call.func(*call.args, **call.kw)
        self.turns.append(self.clock.seconds() - began)

    def finish(self) -> None:
        while self.clock.calls:
            self.next_turn()


def batch(number: int, *documents: str) -> bytes:
    return encode_batch(number, [document.encode() for document in documents])


def run(first: int, count: int) -> list[str]:
    return [str(number) for number in range(first, first + count)]


def subscribe() -> bytes:
    return messages.encode(Subscribe(1, ">", "true()", {}, "", "new", (), 0))


@pytest.fixture
def setting() -> Setting:
    return Setting()


def test_a_batch_of_slow_documents_leaves_slices_to_other_sessions(setting: Setting) -> None:
    session, driver = setting.session()
    other, others = setting.session()
    documents = run(1, 400)
    # At the ends of the first portion and the first slice, and elsewhere.
    refused, duplicates = [0, 15, 16, 26, 399], [40, 41, 398]
    for index in refused:
        documents[index] = "refuse"
    for index in duplicates:
        documents[index] = "2"
    setting.receive(session, batch(1, *documents))
    setting.receive(other, subscribe())
    assert setting.subscriptions.asked[0] < LONGEST
    setting.next_turn()
    setting.receive(other, batch(1, "1000000"), subscribe())
    setting.finish()
    assert setting.subscriptions.asked[1] < 3 * LONGEST
    assert max(setting.turns) < LONGEST
    assert len(setting.turns) > 400 * DEAR / LONGEST
    assert driver.sent == [] and driver.consumed_messages == 0
    setting.log.commit()
    (answer,) = driver.sent
    assert isinstance(answer, Published)
    assert [index for index, _ in answer.refused] == refused
    assert list(answer.duplicates) == duplicates
    assert answer.accepted == 392 and len(answer.later) == 1
    assert driver.consumed_messages == 1
    assert [type(each) for each in others.sent] == [Ended, Ended, Published]
    taken = [d.decode() for documents, _ in setting.committed for d in documents]
    assert taken.count("1000000") == 1
    taken.remove("1000000")
    assert taken == [d for i, d in enumerate(documents) if i not in refused + duplicates]
    setting.check()


def test_batches_that_waited_for_a_type_are_ingested_in_slices(setting: Setting) -> None:
    session, driver = setting.session()
    setting.receive(session, batch(1, "odd 1"))
    for number in range(2, 202):
        setting.receive(session, batch(number, str(number)))
    setting.receive(session, batch(202, *run(202, 100)), subscribe())
    assert len(setting.subscriptions.asked) == 1
    assert setting.log.waiting == [] and not setting.clock.calls
    setting.matcher.known.add(ODD)
    began = setting.clock.seconds()
    setting.dtds.asked[0].callback(None)
    # The source of the DTD does not run the first slice.
    assert setting.clock.seconds() == began
    setting.receive(session, batch(203, "302"), subscribe())
    assert len(setting.subscriptions.asked) == 1
    setting.finish()
    assert len(setting.turns) > 10 and max(setting.turns) < LONGEST
    assert len(setting.subscriptions.asked) == 2
    setting.log.commit()
    answers = [each for each in driver.sent if isinstance(each, Published)]
    assert [each.batch for each in answers] == [*range(1, 204)]
    assert [d for documents, _ in setting.committed for d in documents] == [
        b"odd 1",
        *(b"%d" % number for number in range(2, 303)),
    ]
    assert driver.consumed_messages == 203 + 2
    setting.check()


def test_a_type_missing_in_a_later_slice_holds_the_rest(setting: Setting) -> None:
    session, driver = setting.session()
    setting.receive(session, batch(1, *run(1, 100), "odd 101", *run(102, 100)), batch(2, "202"))
    setting.finish()
    (asked,) = setting.dtds.asked
    setting.log.commit()
    before = [d for documents, _ in setting.committed for d in documents]
    assert before == [b"%d" % number for number in range(1, len(before) + 1)]
    assert 0 < len(before) < 101 and driver.sent == []
    setting.matcher.known.add(ODD)
    asked.callback(None)
    setting.finish()
    setting.log.commit()
    assert driver.sent == [
        Published(1, (("n", 1, 1),), 201, (), ()),
        Published(2, (("n", 1, 202),), 1, (), ()),
    ]
    assert [d.split()[-1] for documents, _ in setting.committed for d in documents] == [
        b"%d" % number for number in range(1, 203)
    ]
    setting.check()


def test_a_failed_commit_between_two_slices_ends_the_batch(setting: Setting) -> None:
    session, driver = setting.session()
    setting.receive(session, batch(1, *run(1, 400)), batch(2, "401"))
    setting.next_turn()
    setting.log.fail()
    setting.log.resting = False
    setting.finish()
    assert [type(each) for each in driver.sent] == [NotPublished] * 2
    assert setting.log.waiting == [] and driver.consumed_messages == 2
    assert sum(setting.matcher.calls) < 100
    setting.receive(session, batch(1, *run(1, 400)), batch(2, "401"))
    setting.finish()
    setting.log.commit()
    assert [type(each) for each in driver.sent[2:]] == [Published] * 2
    assert [d for documents, _ in setting.committed for d in documents] == [
        b"%d" % number for number in range(1, 402)
    ]
    setting.check()


def test_a_session_that_ends_between_two_slices_drops_the_rest(setting: Setting) -> None:
    session, driver = setting.session()
    setting.receive(session, batch(1, *run(1, 400)), batch(2, "401"))
    taken = sum(setting.matcher.calls)
    session.end(None)
    setting.finish()
    assert sum(setting.matcher.calls) == taken < 50
    setting.log.commit()
    assert driver.sent == [] and driver.consumed_messages == 0
    setting.check()


def test_an_error_in_a_later_slice_ends_the_session_and_is_logged(setting: Setting) -> None:
    session, driver = setting.session()
    setting.receive(session, batch(1, *run(1, 400)))
    setting.matcher.broken = True
    with capturedLogs() as logged:
        setting.finish()
    assert session.has_ended and isinstance(session.end_reason, ProtocolError)
    assert [each["log_failure"].type for each in logged if "log_failure" in each] == [KeyError]


def test_an_error_after_a_wait_for_a_type_ends_the_session_too(setting: Setting) -> None:
    session, driver = setting.session()
    setting.receive(session, batch(1, "odd 1"))
    setting.matcher.broken = True
    setting.dtds.asked[0].errback(UnknownType("there is none"))
    with capturedLogs() as logged:
        setting.finish()
    assert session.has_ended and isinstance(session.end_reason, ProtocolError)
    assert [each["log_failure"].type for each in logged if "log_failure" in each] == [KeyError]


# ---------------------------------------------------------------------- the loop and the measure


def test_steps_run_until_the_slice_ends_and_then_in_the_next() -> None:
    clock = Clock()
    left = 100

    def step() -> bool:
        nonlocal left
        left -= 1
        clock.rightNow += SLICE_SECONDS / 10
        return left > 0

    turns = TimeSlices(clock, step, lambda _: None)
    turns.run()
    assert left == 90
    turns.run()
    turns.run_later()
    assert left == 90 and len(clock.calls) == 1
    clock.advance(0.0)
    assert left == 0 and not clock.calls
    left = 1
    turns.run_later()
    assert left == 1
    clock.advance(0.0)
    assert left == 0


def test_a_pause_separates_slices_and_does_not_delay_the_first() -> None:
    clock = Clock()
    steps: list[float] = []

    def step() -> bool:
        steps.append(clock.seconds())
        clock.rightNow += SLICE_SECONDS
        return len(steps) < 2

    turns = TimeSlices(clock, step, lambda _: None, SLICE_SECONDS, 1.0)
    turns.run_later()
    clock.advance(0.0)
    assert steps == [0.0]
    clock.advance(0.5)
    assert steps == [0.0]
    clock.advance(0.5)
    assert steps == [0.0, SLICE_SECONDS + 1.0]


def test_no_step_runs_after_an_error() -> None:
    clock = Clock()
    failures: list[Exception] = []
    steps = 0

    def step() -> bool:
        nonlocal steps
        steps += 1
        raise KeyError("a mistake of ours")

    turns = TimeSlices(clock, step, failures.append)
    with pytest.raises(KeyError):
        turns.run()
    turns.run()
    assert (steps, failures) == (1, [])
    turns = TimeSlices(clock, step, failures.append)
    turns.run_later()
    clock.advance(0.0)
    turns.run()
    assert (steps, len(failures)) == (2, 1)
