from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from twisted.internet.task import Clock

from broker.cluster.address import Address
from broker.cluster.log_page_server import LogPageServer
from broker.cluster.page_queue import PageQueues
from broker.cluster.replicas.service import Replicas
from broker.cluster.traffic.frame import MAX_HOPS, Frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.lost_logs import NoGoneLogs
from broker.cluster.traffic.messages import PageRequest
from broker.event.place import Mark
from broker.log.commit import ReplicaBatch, Retention
from broker.log.event_log import EventLog
from broker.log.history import BranchLoss, HistoryChain
from broker.log.log_file import LogFile
from broker.log.logged_event import LoggedEvent
from broker.matching.contract import Accepted
from broker.queue_memory import QueueMemory
from broker.streams.contract import CarriedEvent
from broker.streams.queue_policy import BLOCK, IQueuePolicy
from tests.cluster.traffic.frames import node
from tests.log.test_event_log import HEADER_RECORD, Thread

SHORT = Retention(max_bytes=1 << 20)


def short_log(folder: Path) -> tuple[EventLog, Thread, Thread]:
    writer, reader = Thread(), Thread()
    log = EventLog(
        LogFile(folder, SHORT, sync=False),
        clock=Clock(),
        wall_clock=lambda: 1000,
        write=writer,
        read=reader,
    )
    return log, writer, reader


def test_events_removed_while_a_page_is_read_are_reported_as_unavailable(tmp_path: Path) -> None:
    log, writer, reader = short_log(tmp_path)

    def append(count: int) -> None:
        for _ in range(count):
            log.append([(HEADER_RECORD, 1, bytes(50_000))], lambda _: None)
            while writer.calls:
                writer.step()

    served: list[tuple[Range, list[CarriedEvent]]] = []
    pages = page_server(log, lambda resume, page: served.extend(page))
    append(10)
    for after in ((1, 5), (1, 40), (1, 52)):
        pages.serve_page(
            PageRequest(node("home"), node("reader"), MAX_HOPS, log.origin, after, True)
        )
        append(25)
        reader.step()
        page, carried = served.pop()
        begins = page.after if page.unavailable_upto is None else page.unavailable_upto
        assert page.after == after and begins >= after
        places = [each.mark[1] for each in carried]
        assert places == list(range(begins[1] + 1, page.upto[1] + 1))


def ask_all(name: str, log: EventLog, after: Mark) -> PageRequest:
    return PageRequest(node("home"), node(name), MAX_HOPS, log.origin, after, True)


def page_server(log: Any, on_page: Callable[..., Any], **changes: Any) -> LogPageServer:
    """By default the reader is cleared for all events, and needs no matcher."""
    defaults: dict[str, Any] = {
        "matcher": None,
        "remote_interest": None,
        "clock": Clock(),
        "destination_of": lambda address: address,
        "is_cleared": lambda address, rank: True,
        "queues": PageQueues(1_000, 1 << 20, QueueMemory()),
    }
    return LogPageServer(event_log=log, on_page=on_page, **(defaults | changes))


def pages_to(served: list[tuple[Range, list[int]]], log: EventLog, **changes: Any) -> LogPageServer:
    """Return a server that adds each range of a page, with the offsets of its events."""

    def on_page(_: PageRequest, page: Sequence[tuple[Range, list[CarriedEvent]]]) -> None:
        served.extend((span, [event.mark[1] for event in events]) for span, events in page)

    return page_server(log, on_page, **changes)


def test_an_empty_page_covers_its_range(tmp_path: Path) -> None:
    log, writer, reader = short_log(tmp_path)
    log.append([(HEADER_RECORD, 1, b"x")] * 3, lambda _: None)
    writer.step()
    served: list[tuple[Range, list[int]]] = []
    pages = pages_to(served, log)
    pages.serve_page(ask_all("reader", log, log.own_end))
    reader.step()
    ((page, places),) = served
    assert (page.after, page.upto, page.unavailable_upto, places) == (
        log.own_end,
        log.own_end,
        None,
        [],
    )


def test_the_last_page_extends_into_an_empty_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.cluster.log_page_server.PAGE_EVENTS", 3)
    log, writer, _ = short_log(tmp_path)
    log.append([(HEADER_RECORD, 1, b"x")] * 6, lambda _: None)
    writer.step()
    before = log.own_end
    log.close()
    while writer.calls:
        writer.step()
    log, _, reader = short_log(tmp_path)
    assert log.own_end > before and log.own_end[1] == 6
    served: list[tuple[Range, list[int]]] = []
    pages = pages_to(served, log)
    after = (before[0], 0)
    for _ in range(2):
        pages.serve_page(ask_all("reader", log, after))
        reader.step()
        after = served[-1][0].upto
    assert [places for _, places in served] == [[1, 2, 3], [4, 5, 6]]
    assert [page.upto for page, _ in served] == [(before[0], 3), log.own_end]


def test_readers_are_served_in_the_order_of_their_requests(tmp_path: Path) -> None:
    log, writer, reader = short_log(tmp_path)
    log.append([(HEADER_RECORD, 1, b"x")] * 3, lambda _: None)
    writer.step()
    served: list[tuple[Range, list[int]]] = []
    pages = pages_to(served, log)
    epoch = log.own_end[0]
    for name, offset in (("r1", 0), ("r2", 0), ("r3", 0), ("r1", 1), ("r2", 2)):
        pages.serve_page(ask_all(name, log, (epoch, offset)))
    while reader.calls:
        reader.step()
    # The last request of a reader replaces its earlier one.
    assert [(page.destination.node, places) for page, places in served] == [
        ("r1", [1, 2, 3]),
        ("r2", [3]),
        ("r3", [1, 2, 3]),
        ("r1", [2, 3]),
    ]


def test_invented_readers_of_a_far_unit_keep_no_other_from_its_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.cluster.log_page_server.MOST_READERS", 4)
    log, writer, reader = short_log(tmp_path)
    log.append([(HEADER_RECORD, 1, b"x")], lambda _: None)
    writer.step()
    served: list[tuple[Range, list[int]]] = []
    near, far = node("r1"), Address(("sea",), "")
    pages = pages_to(served, log, destination_of=lambda each: each if each == near else far)
    for number in range(9):
        invented = Address(far.unit, f"invented{number}")
        pages.serve_page(PageRequest(node("home"), invented, MAX_HOPS, log.origin, (1, 0), True))
    pages.serve_page(ask_all("r1", log, (1, 0)))
    while reader.calls:
        reader.step()
    # The first one was being read before.
    assert [page.destination.node for page, _ in served] == [
        *("invented0", "invented1", "r1", "invented2", "invented3"),
    ]


class Matcher:
    """Matches two documents per slice: `<w/>` is of interest, `<u/>` can not be matched."""

    def match(self, documents: list[bytes], *_: object, marked: bool) -> list[object]:
        verdicts = {
            b"<w/>": Accepted(cast(Any, None), (1,)),
            b"<n/>": Accepted(cast(Any, None), ()),
        }
        return [verdicts.get(document) for document in documents[:2]]


class FakeRemoteInterest:
    policy: IQueuePolicy = BLOCK

    def destinations(self, subscriptions: tuple[int, ...]) -> list[object]:
        return [node("reader")] * len(subscriptions)

    def queue_policy(self, destination: Address, flow: str) -> IQueuePolicy:
        return self.policy

    def matches_of(self, destination: Address, matches: tuple[int, ...]) -> tuple[int, ...]:
        return matches


@pytest.mark.parametrize("all_of_it", [False, True])
def test_a_page_holds_events_of_interest_that_are_cleared(tmp_path: Path, all_of_it: bool) -> None:
    log, writer, reader = short_log(tmp_path)
    documents = [b"<w/>", b"<n/>", b"<u/>", b"<w/>", b"<w/>", b"<u/>", b"<n/>"]
    levels = [0, 0, 1, 2, 1, 2, 2]
    log.append(
        [(HEADER_RECORD, level, each) for each, level in zip(documents, levels, strict=True)],
        lambda _: None,
    )
    writer.step()
    served: list[tuple[Range, list[int]]] = []
    clock = Clock()
    pages = pages_to(
        served,
        log,
        matcher=Matcher(),
        remote_interest=FakeRemoteInterest(),
        clock=clock,
        is_cleared=lambda address, rank: address == node("reader") and rank <= 1,
    )
    after = (log.own_end[0], 0)
    pages.serve_page(
        PageRequest(node("home"), node("reader"), MAX_HOPS, log.origin, after, all_of_it)
    )
    reader.step()
    clock.pump([0.0] * 5)
    ((page, carried),) = served
    assert (page.after, page.upto, page.unavailable_upto, page.is_unfiltered) == (
        after,
        log.own_end,
        None,
        all_of_it,
    )
    assert carried == ([1, 2, 3, 5] if all_of_it else [1, 3, 5])
    assert pages.denied == (3 if all_of_it else 2)


def test_a_loss_after_retained_events_is_unavailable_too(tmp_path: Path) -> None:
    """Retention has removed all events up to a loss of another branch."""
    log, writer, reader = short_log(tmp_path)

    def append() -> None:
        log.append([(HEADER_RECORD, 1, bytes(50_000))], lambda _: None)
        while writer.calls:
            writer.step()

    served: list[Range] = []
    pages = page_server(log, lambda resume, page: served.extend(span for span, _ in page))
    append()
    epoch = log.bounds.epoch
    log.record_loss((epoch - 1, 0), (epoch - 1, 3), ((1, 3),), lambda _: None)
    while log.begins_after.get(log.origin) != (epoch, 1):
        append()
    pages.serve_page(
        PageRequest(node("home"), node("reader"), MAX_HOPS, log.origin, (epoch, 0), True)
    )
    reader.step()
    assert [page.unavailable_upto for page in served] == [log.history_chain.losses[0].last]


def test_each_reader_gets_a_remembered_loss_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.cluster.log_page_server.MOST_TOLD_LOSSES", 2)
    empty, loss = (
        BranchLoss((4, 3), (4, 3), (1, 3), (1, 9)),
        BranchLoss((5, 3), (5, 9), (1, 3), (1, 9)),
    )
    pages = page_server(
        SimpleNamespace(history_chain=HistoryChain([], [empty, loss])), lambda *_: None
    )

    def next_loss(name: str, start: Mark, flow: str = "home") -> tuple[Mark, Mark] | None:
        found = pages._next_loss(node(name), flow, start)
        return None if found is None else (found.after, found.upto)

    for name in ("r1", "r2", "r3"):
        # It has the branch's first place, and gets the loss after it.
        assert next_loss(name, (1, 5)) == ((1, 3), (1, 9))
        # It has taken that page.
        assert next_loss(name, (1, 9)) is None
        assert next_loss(name, (5, 2)) is None
        assert len(pages._told_losses) <= 2
        if name == "r2":
            assert next_loss("r1", (5, 2)) is None
    # A reader beyond the loss gets it where it was recorded, in each flow.
    assert next_loss("other", (5, 2)) == ((5, 3), (5, 9))
    assert next_loss("other", (5, 9)) is None
    assert next_loss("r3", (5, 2), "home/asdi.>") == ((5, 3), (5, 9))
    # A reader before the branch gets it later.
    assert next_loss("early", (1, 2)) == ((1, 3), (1, 9))
    # A reader that has moved on does not take the page.
    assert next_loss("quick", (1, 5)) == ((1, 3), (1, 9))
    assert next_loss("quick", (5, 3)) == ((5, 3), (5, 9))


def test_replicas_removed_during_a_read_yield_no_page(tmp_path: Path) -> None:
    log, writer, reader = short_log(tmp_path)

    def keep(first: int, last: int) -> None:
        for n in range(first, last + 1):
            event = LoggedEvent(1, n, 5, 1, HEADER_RECORD, bytes(50_000), "far", n)
            log.append_replica(ReplicaBatch("far", (1, n - 1), (1, n), [event]), lambda _: None)
            while writer.calls:
                writer.step()

    answered: list[Frame] = []
    replicas = Replicas(
        log,
        replicator=cast(Any, None),
        send_to_neighbour=lambda name, message: None,
        send_message=lambda message: None,
        own_address=lambda: node("keeper"),
        send_frame=answered.append,
        has_other_log=lambda whose, origin: False,
        gone=NoGoneLogs(),
    )
    keep(1, 3)
    replicas.send_page(PageRequest(node("keeper"), node("reader"), MAX_HOPS, "far", (1, 0)))
    keep(4, 30)
    reader.step()
    assert answered == []
    after = log.replica_spans["far"].after
    assert after > (1, 0)
    replicas.send_page(PageRequest(node("keeper"), node("reader"), MAX_HOPS, "far", after))
    reader.step()
    (frame,) = answered
    assert (frame.ranges[0].after, frame.ranges[0].upto, frame.event_count) == (
        after,
        (1, 30),
        30 - after[1],
    )


@pytest.mark.parametrize("all_of_it", [False, True])
def test_no_page_is_sent_while_the_reader_has_no_route(tmp_path: Path, all_of_it: bool) -> None:
    """Otherwise all events would count as above the clearance of the route."""
    log, writer, reader = short_log(tmp_path)
    log.append([(HEADER_RECORD, 0, b"<w/>")] * 3, lambda _: None)
    writer.step()
    served: list[tuple[Range, list[int]]] = []
    clock, routes = Clock(), [False]
    pages = pages_to(
        served,
        log,
        matcher=Matcher(),
        remote_interest=FakeRemoteInterest(),
        clock=clock,
        is_cleared=lambda address, rank: routes[0],
    )
    request = PageRequest(
        node("home"), node("reader"), MAX_HOPS, log.origin, (log.own_end[0], 0), all_of_it
    )
    for has_route in (False, True):
        routes[0] = has_route
        pages.serve_page(request)
        reader.step()
        clock.pump([0.0] * 5)
    assert [places for _, places in served] == [[1, 2, 3]]
    assert pages.denied == 0


def test_a_reader_with_a_route_for_the_lowest_level_gets_a_page(tmp_path: Path) -> None:
    log, writer, reader = short_log(tmp_path)
    log.append([(HEADER_RECORD, level, b"<w/>") for level in (2, 0)], lambda _: None)
    writer.step()
    served: list[tuple[Range, list[int]]] = []
    clock = Clock()
    pages = pages_to(
        served,
        log,
        matcher=Matcher(),
        remote_interest=FakeRemoteInterest(),
        clock=clock,
        is_cleared=lambda address, rank: rank <= 0,
    )
    after = (log.own_end[0], 0)
    pages.serve_page(PageRequest(node("home"), node("reader"), MAX_HOPS, log.origin, after, False))
    reader.step()
    clock.pump([0.0] * 5)
    assert [places for _, places in served] == [[2]] and pages.denied == 1
