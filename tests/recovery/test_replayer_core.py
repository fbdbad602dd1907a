"""The replay process in virtual time: jobs, pages, credits, cancellation, resumption, bounds."""

from __future__ import annotations

import random
from collections import defaultdict

import attrs
import pytest

from broker.errors import EngineUnavailable, Overloaded, ProtocolError, from_wire
from broker.recovery import replayer_messages as messages
from broker.recovery.engine.contract import Report
from broker.recovery.page_turns import AT_ONCE
from broker.recovery.replayer_core import ReplayerCore
from broker.recovery.replayer_effects import (
    CancelJob,
    Drop,
    Effect,
    ForgetRequest,
    ReadPage,
    RemoveJob,
    Send,
    StartJob,
)
from broker.recovery.replays import GATHERING, LEASE, ReplayerLimits
from broker.recovery.request import ReplayRequest

REQUEST = ReplayRequest(">", "true()")
LIMITS = ReplayerLimits()


class Process:
    """The core with what is around it, played: it does what it is told, when the test says so."""

    def __init__(self, limits: ReplayerLimits = LIMITS) -> None:
        self.core = ReplayerCore(limits)
        self.now = 0.0
        self.sent: dict[int, list[messages.Message]] = defaultdict(list)
        self.dropped: list[int] = []
        self.job: StartJob | None = None
        self.cancelled = False
        self.pages: list[ReadPage] = []
        self.jobs: dict[int, set[int]] = {}
        self.started: list[StartJob] = []

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(link, message):
                    self.sent[link].append(messages.decode(messages.encode(message)))
                case Drop(link, _):
                    self.dropped.append(link)
                case StartJob(job, requests):
                    assert self.job is None
                    self.job, self.cancelled = effect, False
                    self.started.append(effect)
                    self.jobs[job] = set(range(len(requests)))
                case CancelJob(job):
                    assert self.job is not None
                    assert self.job.job == job
                    self.cancelled = True
                case ReadPage(_, job, number):
                    assert number in self.jobs[job]
                    self.pages.append(effect)
                case ForgetRequest(job, number):
                    self.jobs[job].remove(number)
                case RemoveJob(job):
                    del self.jobs[job]

    def tell(self, link: int, *said: messages.Message) -> None:
        for message in said:
            self.do(self.core.received(link, message, self.now))

    def ask(self, link: int, *ids: int) -> None:
        self.tell(link, *(messages.Replay(id, REQUEST.to_wire()) for id in ids))

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while (at := self.core.next_timeout()) is not None and at <= until:
            self.now = max(self.now, at)
            self.do(self.core.handle_timeout(self.now))
        self.now = until

    def finish(self, *events: int) -> None:
        """The job is over: so many events for each of its requests."""
        assert self.job is not None
        job, self.job = self.job.job, None
        reports = [Report(events=count, bytes=count * 100) for count in events]
        self.do(self.core.job_done(job, reports, self.now))

    def fail(self) -> None:
        assert self.job is not None
        job, self.job = self.job.job, None
        self.do(self.core.job_failed(job, EngineUnavailable("it broke"), self.now))

    def read(self, events: int) -> None:
        """The oldest page is read."""
        page = self.pages.pop(0)
        chunks = [b"%d" % number for number in range(page.first, page.first + events)]
        self.do(self.core.page_read(page, chunks, events))

    def take(self, link: int) -> list[messages.Message]:
        return self.sent.pop(link, [])


def kinds(said: list[messages.Message]) -> list[str]:
    return [type(message).__name__ for message in said]


def test_requests_that_come_together_are_one_job() -> None:
    process = Process()
    process.ask(1, 1, 2)
    process.wait(GATHERING / 2)
    process.ask(2, 3)
    assert process.job is None
    process.wait(GATHERING / 2)
    assert process.job is None
    process.wait(GATHERING / 2)
    assert process.job is not None
    assert len(process.job.requests) == 3


def test_what_comes_while_a_job_runs_is_the_next_one() -> None:
    process = Process()
    process.ask(1, 1)
    process.wait(GATHERING)
    process.ask(1, 2, 3)
    process.wait(10 * GATHERING)
    assert len(process.started) == 1
    process.finish(0)
    assert [len(job.requests) for job in process.started] == [1, 2]


def test_a_job_takes_no_more_requests_than_it_may() -> None:
    process = Process(ReplayerLimits(requests=2))
    process.ask(1, 1, 2, 3)
    process.wait(GATHERING)
    process.finish(0, 0)
    assert [len(job.requests) for job in process.started] == [2, 1]


def test_pages_come_as_they_are_asked_for_and_the_report_behind_them() -> None:
    process = Process()
    process.ask(1, 1)
    process.wait(GATHERING)
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
    process.wait(GATHERING)
    process.finish(*[10] * replays)
    process.tell(1, *(messages.More(number, pages) for number in range(replays)))
    return process


def test_replays_of_one_connection_take_turns() -> None:
    process = asked_by_many(100, 2)
    read = []
    for _ in range(200):
        assert len(process.pages) <= AT_ONCE
        read.append(process.pages[0].id)
        process.read(5)
    assert read == [*range(100), *range(100)]
    assert process.pages == []


def test_no_more_is_read_than_a_connection_takes() -> None:
    process = asked_by_many(100, 2)
    process.core.full(1)
    sent = 0
    while process.pages:
        process.read(5)
        sent += 1
    assert sent == AT_ONCE
    # Another one is not kept from its own.
    process.ask(2, 200)
    process.wait(GATHERING)
    process.finish(5)
    process.tell(2, messages.More(200, 1))
    assert [page.id for page in process.pages] == [200]
    process.do(process.core.room(1))
    assert len(process.pages) == AT_ONCE + 1


def test_a_page_that_nobody_wants_any_more_makes_room_for_another() -> None:
    process = asked_by_many(AT_ONCE + 1, 1)
    process.tell(1, messages.Cancel(process.pages[0].id))
    assert len(process.pages) == AT_ONCE
    process.pages.append(process.pages.pop(0))
    process.do(process.core.page_read(process.pages.pop(), [b"0"], 1))
    assert [page.id for page in process.pages] == list(range(1, AT_ONCE + 1))


def test_a_request_that_can_not_be_fails_alone() -> None:
    process = Process()
    process.tell(1, messages.Replay(1, [">", "//x["]))
    process.ask(1, 2)
    failed, accepted = process.take(1)
    assert isinstance(failed, messages.Failed)
    assert isinstance(accepted, messages.Accepted)
    process.wait(GATHERING)
    assert len(process.started[0].requests) == 1


def test_a_report_with_an_error_fails_its_request_and_no_other() -> None:
    process = Process()
    process.ask(1, 1, 2)
    process.wait(GATHERING)
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
    process.wait(GATHERING)
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
    process.wait(GATHERING)
    process.tell(1, messages.More(1, 1))
    process.finish(4)
    stale = process.pages.pop(0)
    process.core.disconnected(1, process.now)
    process.tell(2, messages.Resume(1, 3), messages.More(1, 1))
    process.do(process.core.page_read(stale, [b"stale"], 4))
    process.read(1)
    assert kinds(process.take(2)) == ["Accepted", "Found", "Page", "Done"]
    assert process.take(1)[2:] == []


def test_what_was_sent_can_be_had_again_until_it_is_cancelled() -> None:
    process = Process()
    process.ask(1, 1)
    process.wait(GATHERING)
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
    process.wait(GATHERING)
    process.finish(2)
    process.core.disconnected(1, process.now)
    process.wait(LEASE - 1)
    assert process.jobs
    process.wait(1)
    assert process.jobs == {}
    assert process.core.next_timeout() is None


def test_it_can_not_be_resumed_behind_its_end() -> None:
    process = Process()
    process.ask(1, 1)
    process.wait(GATHERING)
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
    process.wait(GATHERING)
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
    process.wait(GATHERING)
    process.finish(1)
    process.tell(2, messages.More(1, 1))
    assert process.pages == []


@attrs.define
class Node:
    """What a node knows of one replay."""

    id: int
    link: int
    events: int = 0
    got: int = 0
    done: bool = False
    failed: bool = False
    credit: int = 0

    def hear(self, message: messages.Message) -> None:
        match message:
            case messages.Found(_, report):
                self.events = Report.from_wire(report).events
            case messages.Page(_, first, chunks):
                assert first == self.got
                assert list(chunks) == [b"%d" % n for n in range(first, first + len(chunks))]
                self.got += len(chunks)
                self.credit -= 1
                assert self.credit >= 0
            case messages.Done():
                assert self.got == self.events
                self.done = True
            case messages.Failed():
                self.failed = True


@pytest.mark.parametrize("seed", range(200))
def test_whatever_happens_each_event_comes_once_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    process = Process(ReplayerLimits(requests=rng.choice([2, 5, 100])))
    nodes: dict[int, Node] = {}
    sizes: dict[int, int] = {}
    link = 1
    broken = False

    def hear() -> None:
        for message in process.take(link):
            if (node := nodes.get(getattr(message, "id", 0))) is not None:
                node.hear(message)

    def step(action: str) -> None:
        nonlocal link, broken
        alive = [node for node in nodes.values() if not (node.done or node.failed)]
        if action == "ask":
            id = len(sizes) + 1
            sizes[id] = rng.randrange(12)
            nodes[id] = Node(id, link)
            process.ask(link, id)
        elif action == "more" and alive:
            node = rng.choice(alive)
            node.credit += (pages := rng.randrange(1, 4))
            process.tell(link, messages.More(node.id, pages))
        elif action == "cancel" and alive:
            node = nodes.pop(rng.choice(alive).id)
            process.tell(link, messages.Cancel(node.id))
        elif action == "break":
            # What is under way is lost.
            process.take(link)
            process.core.disconnected(link, process.now)
            link += 1
            for node in alive:
                node.credit = 0
                process.tell(link, messages.Resume(node.id, node.got))
        elif action == "finish" and process.job is not None:
            if process.cancelled or rng.random() < 0.1:
                broken = True
                process.fail()
            else:
                # The requests are alike: by the replays of the job, which have not been read yet.
                process.finish(*([3 * (seed % 4)] * len(process.job.requests)))
        elif action == "read" and process.pages:
            page = process.pages[0]
            process.read(min(rng.randrange(1, 4), 3 * (seed % 4) - page.first))
        elif action == "full":
            process.core.full(link)
        elif action == "room":
            process.do(process.core.room(link))
        elif action == "wait":
            process.wait(rng.choice([0.01, 0.1, 1.0]))
        hear()

    actions = ["ask", "more", "more", "cancel", "break", "finish", "read", "read", "read", "wait"]
    for _ in range(120):
        step(rng.choice([*actions, "full", "room"]))
    step("room")
    for _ in range(2_000):
        if all(node.done or node.failed for node in nodes.values()):
            break
        step(rng.choice(["more", "finish", "read", "wait"]))
    assert all(node.done or node.failed for node in nodes.values())
    if not broken:
        assert not any(node.failed for node in nodes.values())
    for node in nodes.values():
        process.tell(link, messages.Cancel(node.id))
    while process.job is not None:
        process.fail()
    process.wait(1)
    assert process.jobs == {}
    assert process.core.next_timeout() is None


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\x90", b"\x91\x01", b"\x93\x01\x01", b"\x92\x99\x01", b"\x93\x02\x01\xff"],
)
def test_bytes_that_are_no_message_are_refused_by_their_kind(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        messages.decode(data)
