from __future__ import annotations

import pytest

from broker.errors import Overloaded, from_wire
from broker.recovery.page_schedule import MAX_IN_FLIGHT
from broker.replay import replayer_messages as messages
from broker.replay.engine.contract import Report
from broker.replay.replay_entry import GATHER_SECONDS, ReplayerLimits
from tests.replay.simulated_replayer import REQUEST, Process


def kinds(received: list[messages.Message]) -> list[str]:
    return [type(message).__name__ for message in received]


def test_requests_at_the_same_time_share_a_job() -> None:
    process = Process()
    process.ask(1, 2)
    process.wait(GATHER_SECONDS / 2)
    process.ask(3)
    assert process.job is None
    process.wait(GATHER_SECONDS / 2)
    assert process.job is None
    process.wait(GATHER_SECONDS / 2)
    assert process.job is not None
    assert len(process.job.requests) == 3


def test_requests_during_a_job_form_the_next_one() -> None:
    process = Process()
    process.ask(1)
    process.wait(GATHER_SECONDS)
    process.ask(2, 3)
    process.wait(10 * GATHER_SECONDS)
    assert len(process.started) == 1
    process.finish(0)
    assert [len(job.requests) for job in process.started] == [1, 2]


def test_a_job_is_limited_in_requests() -> None:
    process = Process(ReplayerLimits(requests=2))
    process.ask(1, 2, 3)
    process.wait(GATHER_SECONDS)
    process.finish(0, 0)
    assert [len(job.requests) for job in process.started] == [2, 1]


def test_pages_are_sent_on_request_after_the_report() -> None:
    process = Process()
    process.ask(1)
    process.wait(GATHER_SECONDS)
    process.finish(3)
    assert kinds(process.take()) == ["Accepted", "Found"]
    assert process.pages == []
    process.tell(messages.More(1, 1))
    process.read(2)
    [page] = process.take()
    assert page == messages.Page(1, 0, (b"0", b"1"))
    assert process.pages == []
    process.tell(messages.More(1, 5))
    process.read(1)
    page, done = process.take()
    assert page == messages.Page(1, 2, (b"2",))
    assert isinstance(done, messages.Done)


def asked_by_many(replays: int, pages: int) -> Process:
    process = Process()
    process.ask(*range(replays))
    process.wait(GATHER_SECONDS)
    process.finish(*[10] * replays)
    process.tell(*(messages.More(number, pages) for number in range(replays)))
    return process


def test_replays_take_turns() -> None:
    process = asked_by_many(100, 2)
    read = []
    for _ in range(200):
        assert len(process.pages) <= MAX_IN_FLIGHT
        read.append(process.pages[0].id)
        process.read(5)
    assert read == [*range(100), *range(100)]
    assert process.pages == []


def test_no_page_is_read_for_a_full_connection() -> None:
    process = asked_by_many(100, 2)
    process.core.pause()
    sent = 0
    while process.pages:
        process.read(5)
        sent += 1
    assert sent == MAX_IN_FLIGHT
    process.do(process.core.resume())
    assert len(process.pages) == MAX_IN_FLIGHT


def test_a_cancelled_page_frees_its_slot() -> None:
    process = asked_by_many(MAX_IN_FLIGHT + 1, 1)
    process.tell(messages.Cancel(process.pages[0].id))
    assert len(process.pages) == MAX_IN_FLIGHT
    process.pages.append(process.pages.pop(0))
    process.do(process.core.page_read(process.pages.pop(), [b"0"], 1))
    assert [page.id for page in process.pages] == list(range(1, MAX_IN_FLIGHT + 1))


def test_only_an_invalid_request_fails() -> None:
    process = Process()
    process.tell(messages.Replay(1, [">", "//x["]))
    process.ask(2)
    failed, accepted = process.take()
    assert isinstance(failed, messages.Failed)
    assert isinstance(accepted, messages.Accepted)
    process.wait(GATHER_SECONDS)
    assert len(process.started[0].requests) == 1


def test_an_error_in_a_report_fails_only_its_request() -> None:
    process = Process()
    process.ask(1, 2)
    process.wait(GATHER_SECONDS)
    process.take()
    assert process.job is not None
    error = Overloaded("too much").to_wire()
    job, process.job = process.job.job, None
    process.do(process.core.job_done(job, [Report(error=error), Report(events=1)], process.now))
    failed, found = process.take()
    assert isinstance(failed, messages.Failed)
    assert isinstance(from_wire(failed.error), Overloaded)
    assert found == messages.Found(2, Report(events=1).to_wire())


def test_a_job_without_replays_is_cancelled_and_deleted() -> None:
    process = Process()
    process.ask(1, 2)
    process.wait(GATHER_SECONDS)
    process.tell(messages.Cancel(1))
    assert not process.cancelled
    process.tell(messages.Cancel(2))
    assert process.cancelled
    process.fail()
    assert process.jobs == {}
    assert kinds(process.take()) == ["Accepted", "Accepted"]


def test_a_page_of_a_cancelled_replay_is_not_sent() -> None:
    process = asked_by_many(1, 1)
    process.tell(messages.Cancel(0))
    process.ask(0)
    process.take()
    process.read(2)
    assert process.take() == []


def test_requests_over_the_limits_fail_as_overloaded() -> None:
    process = Process(ReplayerLimits(replays=2, spool_bytes=1000))
    process.ask(1, 2, 3)
    *_, refused = process.take()
    assert isinstance(refused, messages.Failed)
    assert isinstance(from_wire(refused.error), Overloaded)
    process.wait(GATHER_SECONDS)
    process.finish(11, 0)
    process.tell(messages.Cancel(2))
    process.take()
    process.ask(4)
    assert kinds(process.take()) == ["Failed"]
    process.tell(messages.Cancel(1))
    process.ask(4)
    assert kinds(process.take()) == ["Accepted"]


@pytest.mark.parametrize(
    "message", [messages.Accepted(1), messages.Replay(7, REQUEST.to_wire()), messages.Notice("x")]
)
def test_a_protocol_error_closes_the_connection(message: messages.Message) -> None:
    process = Process()
    process.ask(7)
    process.tell(message)
    assert process.is_dropped
