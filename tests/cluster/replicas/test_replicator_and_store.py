from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from twisted.internet.task import Clock

from broker.cluster.messages import decode
from broker.cluster.replicas.messages import (
    REPLICA_EVENTS,
    ReplicaRequest,
    ReplicaState,
    decode_replica_events,
)
from broker.cluster.replicas.replicator import PROGRESS_TIMEOUT, Replicator
from broker.cluster.replicas.store import ReplicaStore
from broker.config.settings import StreamSettings
from broker.errors import ProtocolError
from broker.event.stream import StreamPattern
from broker.log.commit import Retention
from broker.log.event_log import EventLog
from broker.log.log_file import LogFile
from tests.cluster.traffic.frames import node
from tests.log.test_event_log import HEADER_RECORD, Thread, log_at


def sender_to(sent: list[bytes]) -> Callable[[str, bytes], bool]:
    def send(name: str, data: bytes) -> bool:
        sent.append(data)
        return True

    return send


def test_a_request_during_a_commit_loses_no_replicated_event(tmp_path: Path) -> None:
    """The link breaks and returns during a commit, or the disk is slow for five seconds."""
    clock = Clock()
    origin_log, writes = log_at(tmp_path / "owner", clock)
    for _ in range(30):
        origin_log.append([(HEADER_RECORD, 1, b"<x/>")], lambda _: None)
    while writes.calls:
        writes.step()
    log, disk = log_at(tmp_path / "keeper", clock)
    to_store: list[bytes] = []
    to_replicator: list[Any] = []
    origin_address, store_address = node("owner"), node("keeper")
    replicator = Replicator(
        origin_log,
        [StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour")],
        clock,
        sender_to(to_store),
    )
    store = ReplicaStore(
        log,
        send_state=lambda name, state: to_replicator.append(state),
        send_ack=lambda replicated: to_replicator.append(replicated),
        own_address=lambda: store_address,
    )

    def exchange() -> None:
        while to_store or to_replicator or writes.calls:
            while to_store:
                data = to_store.pop(0)
                if data[0] == 0x65:
                    store.append_replica(origin_address, data)
                else:
                    store.accept_request(origin_address, cast(ReplicaRequest, decode(data)))
            while to_replicator:
                message = to_replicator.pop(0)
                if isinstance(message, ReplicaState):
                    replicator.receive_state("keeper", message)
                else:
                    replicator.receive_ack("keeper", message.upto)
            while writes.calls:
                writes.step()

    replicator.choose_neighbour(["keeper"])
    exchange()
    disk.step()
    exchange()
    origin, epoch = origin_log.origin, origin_log.bounds.epoch
    assert replicator.replicated_upto == (epoch, 30) and log.replica_spans[origin].after == (0, 0)
    origin_log.append(
        [(HEADER_RECORD, 1, b"<x/>")] * 10,
        lambda events: replicator.replicate_committed(events),  # type: ignore[arg-type]
    )
    exchange()
    assert disk.calls, "their commit is under way"
    store.remove_neighbour("owner")
    replicator.choose_neighbour([])
    replicator.choose_neighbour(["keeper"])
    exchange()
    while disk.calls:
        disk.step()
        exchange()
    assert replicator.replicated_upto == (epoch, 40)
    assert log.replica_spans[origin] == ((0, 0), (epoch, 40), str(origin_address))
    replicated = log._file.read_replica(origin, (0, 0), 99, 1 << 30)
    assert [event.offset for event in replicated] == list(range(1, 41))


def test_a_second_neighbour_with_progress_is_not_asked_again(tmp_path: Path) -> None:
    clock = Clock()
    log, writes = log_at(tmp_path, clock)
    for _ in range(3000):
        log.append([(HEADER_RECORD, 1, b"<x/>")], lambda _: None)
    while writes.calls:
        writes.step()
    sent: list[bytes] = []
    replicator = Replicator(
        log,
        [StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour")],
        clock,
        sender_to(sent),
    )
    epoch = log.bounds.epoch
    replicator.replicated_upto = (epoch, 3000)  # the first replica had all
    replicator.choose_neighbour(["second"])
    replicator.receive_state("second", ReplicaState(log.origin, (0, 0), (0, 0)))
    for upto in (1000, 2000, 2500):
        while writes.calls:
            writes.step()
        replicator.receive_ack("second", (epoch, upto))
        clock.advance(PROGRESS_TIMEOUT * 0.9)
    assert len([each for each in sent if each[0] != 0x65]) == 1


def test_a_replica_has_no_missing_range_when_retention_overtakes_it(tmp_path: Path) -> None:
    clock = Clock()
    thread, reader = Thread(), Thread()
    file = LogFile(tmp_path, Retention(max_bytes=1 << 20), sync=False)
    log = EventLog(file, clock=clock, wall_clock=lambda: 1000, write=thread, read=reader)

    def append(count: int) -> None:
        for _ in range(count):
            log.append([(HEADER_RECORD, 1, bytes(50_000))], replicator.replicate_committed)  # type: ignore[arg-type]
            while thread.calls:
                thread.step()

    sent: list[bytes] = []
    replicator = Replicator(
        log,
        [StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour")],
        clock,
        sender_to(sent),
    )
    append(15)
    replicator.choose_neighbour(["keeper"])
    for after in ((0, 0), (log.bounds.epoch, 11)):
        replicator.receive_state("keeper", ReplicaState(log.origin, after, after))
        # The first page may be on its way when the following events are removed.
        append(20)
        while reader.calls:
            reader.step()
            append(15)
        pages = [
            decode_replica_events(data, log.origin) for data in sent if data[0] == REPLICA_EVENTS
        ]
        for before, page in itertools.pairwise(pages):
            assert page.after == before.upto
        for page in pages:
            places = list(range(page.after[1] + 1, page.upto[1] + 1))
            assert [event.offset for event in page.events] == places
        assert pages
        sent.clear()
        clock.advance(PROGRESS_TIMEOUT)
        assert [data[0] for data in sent] == [0x63], (
            "the rest is gone: the state is requested again"
        )
        sent.clear()


def test_an_acknowledgement_of_unsent_events_is_ignored(tmp_path: Path) -> None:
    clock = Clock()
    log, writes = log_at(tmp_path, clock)
    replicator = Replicator(
        log,
        [StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour")],
        clock,
        lambda name, data: True,
    )
    replicator.choose_neighbour(["keeper"])
    replicator.receive_state("keeper", ReplicaState(log.origin, (0, 0), (0, 0)))
    replicator.receive_ack("keeper", (1 << 31, 0))
    log.append([(HEADER_RECORD, 1, b"<x/>")], lambda _: None)
    while writes.calls:
        writes.step()
    safe: list[bool] = []
    replicator.call_when_replicated(lambda: safe.append(True))
    assert not safe


def test_a_renamed_node_keeps_its_replica(tmp_path: Path) -> None:
    log, _ = log_at(tmp_path, Clock())
    told: list[tuple[str, object]] = []
    store = ReplicaStore(
        log,
        lambda *message: told.append(message),
        send_ack=lambda _: None,
        own_address=lambda: node("keeper"),
    )
    store.accept_request(node("before"), ReplicaRequest("origin"))
    with pytest.raises(ProtocolError):
        store.accept_request(node("liar"), ReplicaRequest("origin"))
    store.remove_neighbour("before")
    store.accept_request(node("after"), ReplicaRequest("origin"))
    assert [name for name, _ in told] == ["before", "after"]
    assert store.origin_nodes == {"origin": node("after")}
