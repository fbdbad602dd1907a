"""The replay process in virtual time: jobs, pages, credits, cancellation, resumption, bounds."""

from __future__ import annotations

import pytest

from broker.errors import Overloaded, ProtocolError, from_wire
from broker.recovery.page_schedule import MAX_IN_FLIGHT
from broker.replay import replayer_messages as messages
from broker.replay.engine.contract import Report
from broker.replay.replay_entry import GATHER_SECONDS, LEASE_SECONDS, ReplayerLimits
from tests.replay.simulated_replayer import REQUEST, Process


def kinds(said: list[messages.Message]) -> list[str]:
    return [type(message).__name__ for message in said]


def test_requests_that_come_together_are_one_job() -> None:
    process = Process()
    process.ask(1, 1, 2)
    process.wait(GATHER_SECONDS / 2)
    process.ask(2, 3)
    assert process.job is None
    process.wait(GATHER_SECONDS / 2)
    assert process.job is None
    process.wait(GATHER_SECONDS / 2)
    assert process.job is not None
    assert len(process.job.requests) == 3


def test_what_comes_while_a_job_runs_is_the_next_one() -> None:
    process = Process()
    process.ask(1, 1)
    process.wait(GATHER_SECONDS)
    process.ask(1, 2, 3)
    process.wait(10 * GATHER_SECONDS)
    assert len(process.started) == 1
    process.finish(0)
    assert [len(job.requests) for job in process.started] == [1, 2]


def test_a_job_takes_no_more_requests_than_it_may() -> None:
    process = Process(ReplayerLimits(requests=2))
    process.ask(1, 1, 2, 3)
    process.wait(GATHER_SECONDS)
    process.finish(0, 0)
    assert [len(job.requests) for job in process.started] == [2, 1]


def test_pages_come_as_they_are_asked_for_and_the_report_behind_them() -> None:
    process = Process()
    process.ask(1, 1)
    process.wait(GATHER_SECONDS)
    process.finish(3)
    assert kinds(process.take(1)) == ["Accepted", "Found"]
    assert process.pages == []
    process.tell(1, messages.More(1, 1))
    process.read(2)
    [page] = process.take(1)
    assert page == messages.Page(1, 0, (b"0", b"1"))
    assert process.pages == []
    process.tell(1, messages.More(1, 5))
    process.read(1)
    page, done = process.take(1)
    assert page == messages.Page(1, 2, (b"2",))
    assert isinstance(done, messages.Done)


def asked_by_many(replays: int, pages: int) -> Process:
    """All are ready, and over one connection so many pages of each are asked for."""
    process = Process()
    process.ask(1, *range(replays))
    process.wait(GATHER_SECONDS)
    process.finish(*[10] * replays)
    process.tell(1, *(messages.More(number, pages) for number in range(replays)))
    return process


def test_replays_of_one_connection_take_turns() -> None:
    process = asked_by_many(100, 2)
    read = []
    for _ in range(200):
        assert len(process.pages) <= MAX_IN_FLIGHT
        read.append(process.pages[0].id)
        process.read(5)
    assert read == [*range(100), *range(100)]
    assert process.pages == []


def test_no_more_is_read_than_a_connection_takes() -> None:
    process = asked_by_many(100, 2)
    process.core.pause_connection(1)
    sent = 0
    while process.pages:
        process.read(5)
        sent += 1
    assert sent == MAX_IN_FLIGHT
    # Another one is not kept from its own.
    process.ask(2, 200)
    process.wait(GATHER_SECONDS)
    process.finish(5)
    process.tell(2, messages.More(200, 1))
    assert [page.id for page in process.pages] == [200]
    process.do(process.core.resume_connection(1))
    assert len(process.pages) == MAX_IN_FLIGHT + 1


def test_a_page_that_nobody_wants_any_more_makes_room_for_another() -> None:
    process = asked_by_many(MAX_IN_FLIGHT + 1, 1)
    process.tell(1, messages.Cancel(process.pages[0].id))
    assert len(process.pages) == MAX_IN_FLIGHT
    process.pages.append(process.pages.pop(0))
    process.do(process.core.page_read(process.pages.pop(), [b"0"], 1))
    assert [page.id for page in process.pages] == list(range(1, MAX_IN_FLIGHT + 1))


def test_a_request_that_can_not_be_fails_alone() -> None:
    process = Process()
    process.tell(1, messages.Replay(1, [">", "//x["]))
    process.ask(1, 2)
    failed, accepted = process.take(1)
    assert isinstance(failed, messages.Failed)
    assert isinstance(accepted, messages.Accepted)
    process.wait(GATHER_SECONDS)
    assert len(process.started[0].requests) == 1


def test_a_report_with_an_error_fails_its_request_and_no_other() -> None:
    process = Process()
    process.ask(1, 1, 2)
    process.wait(GATHER_SECONDS)
    process.take(1)
    assert process.job is not None
    error = Overloaded("too much").to_wire()
    job, process.job = process.job.job, None
    process.do(process.core.job_done(job, [Report(error=error), Report(events=1)], process.now))
    failed, found = process.take(1)
    assert isinstance(failed, messages.Failed)
    assert isinstance(from_wire(failed.error), Overloaded)
    assert found == messages.Found(2, Report(events=1).to_wire())


def test_a_job_that_nobody_waits_for_is_cancelled_and_its_folder_goes() -> None:
    process = Process()
    process.ask(1, 1, 2)
    process.wait(GATHER_SECONDS)
    process.tell(1, messages.Cancel(1))
    assert not process.cancelled
    process.tell(1, messages.Cancel(2))
    assert process.cancelled
    process.fail()
    assert process.jobs == {}
    assert kinds(process.take(1)) == ["Accepted", "Accepted"]


def test_a_replay_is_resumed_over_another_connection_from_where_it_was() -> None:
    process = Process()
    process.ask(1, 1)
    process.wait(GATHER_SECONDS)
    process.tell(1, messages.More(1, 1))
    process.finish(4)
    stale = process.pages.pop(0)
    process.core.connection_lost(1, process.now)
    process.tell(2, messages.Resume(1, 3), messages.More(1, 1))
    process.do(process.core.page_read(stale, [b"stale"], 4))
    process.read(1)
    assert kinds(process.take(2)) == ["Accepted", "Found", "Page", "Done"]
    assert process.take(1)[2:] == []


def test_what_was_sent_can_be_had_again_until_it_is_cancelled() -> None:
    process = Process()
    process.ask(1, 1)
    process.wait(GATHER_SECONDS)
    process.tell(1, messages.More(1, 1))
    process.finish(2)
    process.read(2)
    process.tell(1, messages.Resume(1, 0), messages.More(1, 1))
    process.read(2)
    assert kinds(process.take(1))[-4:] == ["Accepted", "Found", "Page", "Done"]
    process.tell(1, messages.Cancel(1), messages.Resume(1, 0))
    assert kinds(process.take(1)) == ["Failed"]
    assert process.jobs == {}


def test_a_replay_without_a_connection_is_forgotten_in_the_end() -> None:
    process = Process()
    process.ask(1, 1)
    process.wait(GATHER_SECONDS)
    process.finish(2)
    process.core.connection_lost(1, process.now)
    process.wait(LEASE_SECONDS - 1)
    assert process.jobs
    process.wait(1)
    assert process.jobs == {}
    assert process.core.next_timeout() is None


def test_it_can_not_be_resumed_behind_its_end() -> None:
    process = Process()
    process.ask(1, 1)
    process.wait(GATHER_SECONDS)
    process.finish(2)
    process.take(1)
    process.tell(1, messages.Resume(1, 3))
    assert kinds(process.take(1)) == ["Failed"]


def test_more_than_the_process_holds_is_refused_by_its_kind() -> None:
    process = Process(ReplayerLimits(replays=2, spool_bytes=1000))
    process.ask(1, 1, 2, 3)
    *_, refused = process.take(1)
    assert isinstance(refused, messages.Failed)
    assert isinstance(from_wire(refused.error), Overloaded)
    process.wait(GATHER_SECONDS)
    process.finish(11, 0)
    process.tell(1, messages.Cancel(2))
    process.take(1)
    process.ask(1, 4)
    assert kinds(process.take(1)) == ["Failed"]
    process.tell(1, messages.Cancel(1))
    process.ask(1, 4)
    assert kinds(process.take(1)) == ["Accepted"]


@pytest.mark.parametrize(
    "said", [messages.Accepted(1), messages.Replay(7, REQUEST.to_wire()), messages.Notice("x")]
)
def test_who_breaks_a_rule_is_cut_off(said: messages.Message) -> None:
    process = Process()
    process.ask(1, 7)
    process.tell(2, said)
    assert process.dropped == [2]


def test_a_node_can_not_take_events_of_a_replay_that_another_connection_has() -> None:
    process = Process()
    process.ask(1, 1)
    process.wait(GATHER_SECONDS)
    process.finish(1)
    process.tell(2, messages.More(1, 1))
    assert process.pages == []


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\x90", b"\x91\x01", b"\x93\x01\x01", b"\x92\x99\x01", b"\x93\x02\x01\xff"],
)
def test_bytes_that_are_no_message_are_refused_by_their_kind(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        messages.decode(data)
