"""An owner and its keeper, while links break and disks are slow."""

from __future__ import annotations

import itertools
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


def test_a_keeper_that_is_asked_while_it_writes_keeps_all(tmp_path: Path) -> None:
    """The link breaks and comes again while a commit of copies is under way, or the disk is slow
    for five seconds."""
    clock = Clock()
    owners, writes = log_at(tmp_path / "owner", clock)
    for _ in range(30):
        owners.append([(HEADER_RECORD, 1, b"<x/>")], lambda _: None)
    while writes.calls:
        writes.step()
    log, disk = log_at(tmp_path / "keeper", clock)
    to_keeper: list[bytes] = []
    to_owner: list[Any] = []
    owner_address, keeper_address = node("owner"), node("keeper")
    owner = Replicator(
        owners,
        [StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour")],
        clock,
        lambda name, data: not to_keeper.append(data),
    )
    keeper = ReplicaStore(
        log,
        send_state=lambda name, has: to_owner.append(has),
        send_ack=lambda kept: to_owner.append(kept),
        own_address=lambda: keeper_address,
    )

    def exchange() -> None:
        while to_keeper or to_owner or writes.calls:
            while to_keeper:
                data = to_keeper.pop(0)
                if data[0] == 0x65:
                    keeper.append_replica(owner_address, data)
                else:
                    keeper.accept_request(owner_address, cast(ReplicaRequest, decode(data)))
            while to_owner:
                said = to_owner.pop(0)
                if isinstance(said, ReplicaState):
                    owner.receive_state("keeper", said)
                else:
                    owner.receive_ack("keeper", said.upto)
            while writes.calls:
                writes.step()

    owner.choose_neighbour(["keeper"])
    exchange()
    disk.step()  # the first 30 are kept
    exchange()
    origin, epoch = owners.origin, owners.bounds.epoch
    assert owner.replicated_upto == (epoch, 30) and log.kept[origin].after == (0, 0)
    owners.append(
        [(HEADER_RECORD, 1, b"<x/>")] * 10,
        lambda events: owner.replicate_committed(events),  # type: ignore[arg-type]
    )
    exchange()
    assert disk.calls, "their commit is under way"
    keeper.remove_neighbour("owner")
    owner.choose_neighbour([])
    owner.choose_neighbour(["keeper"])
    exchange()
    while disk.calls:
        disk.step()
        exchange()
    assert owner.replicated_upto == (epoch, 40)
    assert log.kept[origin] == ((0, 0), (epoch, 40), str(owner_address))
    kept = log._file.read_kept(origin, (0, 0), 99, 1 << 30)
    assert [event.offset for event in kept] == list(range(1, 41))


def test_a_second_keeper_that_gets_on_is_not_asked_again(tmp_path: Path) -> None:
    clock = Clock()
    log, writes = log_at(tmp_path, clock)
    for _ in range(3000):
        log.append([(HEADER_RECORD, 1, b"<x/>")], lambda _: None)
    while writes.calls:
        writes.step()
    sent: list[bytes] = []
    owner = Replicator(
        log,
        [StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour")],
        clock,
        lambda name, data: not sent.append(data),
    )
    epoch = log.bounds.epoch
    owner.replicated_upto = (epoch, 3000)  # the first keeper had all
    owner.choose_neighbour(["second"])
    owner.receive_state("second", ReplicaState(log.origin, (0, 0), (0, 0)))
    for upto in (1000, 2000, 2500):
        while writes.calls:
            writes.step()
        owner.receive_ack("second", (epoch, upto))
        clock.advance(PROGRESS_TIMEOUT * 0.9)
    assert len([each for each in sent if each[0] != 0x65]) == 1


def test_what_is_kept_has_no_hole_where_retention_is_quicker_than_the_owner(tmp_path: Path) -> None:
    clock = Clock()
    thread, reader = Thread(), Thread()
    file = LogFile(tmp_path, Retention(max_bytes=1 << 20), sync=False)
    log = EventLog(file, clock=clock, wall_clock=lambda: 1000, write=thread, read=reader)

    def append(count: int) -> None:
        for _ in range(count):
            log.append([(HEADER_RECORD, 1, bytes(50_000))], owner.replicate_committed)  # type: ignore[arg-type]
            while thread.calls:
                thread.step()

    sent: list[bytes] = []
    owner = Replicator(
        log,
        [StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour")],
        clock,
        lambda name, data: not sent.append(data),
    )
    append(15)
    owner.choose_neighbour(["keeper"])
    for after in ((0, 0), (log.bounds.epoch, 11)):
        owner.receive_state("keeper", ReplicaState(log.origin, after, after))
        # The first page is under way to the keeper, or not, when what follows goes.
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
        assert [data[0] for data in sent] == [0x63], "the rest is gone: it is asked again"
        sent.clear()


def test_kept_is_believed_only_for_what_was_sent(tmp_path: Path) -> None:
    clock = Clock()
    log, writes = log_at(tmp_path, clock)
    owner = Replicator(
        log,
        [StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour")],
        clock,
        lambda name, data: True,
    )
    owner.choose_neighbour(["keeper"])
    owner.receive_state("keeper", ReplicaState(log.origin, (0, 0), (0, 0)))
    owner.receive_ack("keeper", (1 << 31, 0))
    log.append([(HEADER_RECORD, 1, b"<x/>")], lambda _: None)
    while writes.calls:
        writes.step()
    safe: list[bool] = []
    owner.when_safe(lambda: safe.append(True))
    assert not safe


def test_a_node_that_was_given_another_name_has_its_keeper_still(tmp_path: Path) -> None:
    log, _ = log_at(tmp_path, Clock())
    told: list[tuple[str, object]] = []
    keeper = ReplicaStore(
        log,
        lambda *said: told.append(said),
        send_ack=lambda _: None,
        own_address=lambda: node("keeper"),
    )
    keeper.accept_request(node("before"), ReplicaRequest("origin"))
    with pytest.raises(ProtocolError):
        keeper.accept_request(node("liar"), ReplicaRequest("origin"))
    keeper.remove_neighbour("before")
    keeper.accept_request(node("after"), ReplicaRequest("origin"))
    assert [name for name, _ in told] == ["before", "after"]
    assert keeper.origin_nodes == {"origin": node("after")}
