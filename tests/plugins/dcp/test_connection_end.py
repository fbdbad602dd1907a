"""Ends of connections: silent and lagging peers, and FIN."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from broker.transport.arq.settings import constant_rate
from plugins.dcp.connection import Connection
from plugins.dcp.control import Leaving
from plugins.dcp.packet import ACK, FIN, Packet
from plugins.dcp.settings import DcpSettings
from tests.plugins.dcp.connection_pipe import MAC, Pipe, make_range, read

SLOW = DcpSettings(pacing=constant_rate(10_000.0, 1_400), send_bytes=30_000, lag_seconds=5.0)


def drop_all_of(*sources: Connection) -> Callable[[Connection, Packet], bool]:
    return lambda source, packet: source in sources


def run_until_error(connection: Connection, pipe: Pipe, most: float) -> float:
    """Let time pass until a connection ends; return the seconds."""
    begin = pipe.now
    while not connection.error:
        assert pipe.now < begin + most
        pipe.run(0.25)
    return pipe.now - begin


# ------------------------------------------------------------------ silence


@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_ends_that_hear_each_other_stay_open(loss: float) -> None:
    pipe = Pipe(loss=loss, seed=3)
    pipe.open_sequence()
    pipe.run(600.0)
    pipe.append(make_range(0, 5, 3))
    pipe.run(600.0)
    assert pipe.child.error == pipe.parent.error == ""


def test_a_silent_peer_is_closed() -> None:
    pipe = Pipe()
    pipe.run(20.0)
    pipe.drops = drop_all_of(pipe.parent)
    # Its intervals are 5 s by now, and the loss is not known yet.
    assert 15.0 < run_until_error(pipe.child, pipe, 45.0)
    assert pipe.child.error == "silent"
    pipe.run(1.0)
    # FIN has come through.
    assert pipe.parent.error == "silent"


def test_a_path_that_is_cut_ends_both() -> None:
    pipe = Pipe()
    pipe.run(20.0)
    pipe.drops = drop_all_of(pipe.parent, pipe.child)
    pipe.run(120.0)
    assert pipe.child.error == pipe.parent.error == "silent"


def test_a_peer_that_never_answered_is_closed() -> None:
    pipe = Pipe()
    pipe.drops = drop_all_of(pipe.parent)
    pipe.run(60.0)
    assert pipe.child.error == "silent"


def test_a_parent_that_answers_no_keepalive_is_suspect_only_if_it_sends_nothing_else() -> None:
    pipe = Pipe()
    pipe.open_sequence()
    pipe.run(5.0)
    pipe.drops = lambda source, packet: source is pipe.parent and bool(packet.flags & ACK)
    an = 0
    while pipe.child.path.unanswered < 4:
        pipe.append(make_range(an, an + 1, an + 1))
        an += 1
        pipe.run(0.1)
        assert not pipe.child.path.is_suspect
    pipe.drops = drop_all_of(pipe.parent)
    begin = pipe.now
    while not pipe.child.path.is_suspect:
        assert pipe.now < begin + 2.0
        pipe.run(0.1)


def test_a_probe_is_answered_soon() -> None:
    pipe = Pipe(delay=0.05)
    pipe.run(60.0)
    for _ in range(3):
        pipe.parent.probe()
        begin = pipe.now
        # The least interval of keep-alives, and a round trip.
        pipe.run(0.36)
        assert pipe.parent.liveness.received_at > begin


# ------------------------------------------------------------------ lag


def test_a_child_that_never_acknowledges_is_closed() -> None:
    pipe = Pipe()
    pipe.open_sequence()
    pipe.append(make_range(0, 5, 3))
    # The child sends keep-alives, and gets nothing that it could acknowledge.
    pipe.drops = drop_all_of(pipe.parent)
    assert 1.0 < run_until_error(pipe.parent, pipe, 5.0)
    assert pipe.parent.error == "lagging" and pipe.child.error == ""


def test_a_child_that_begins_to_acknowledge_is_kept() -> None:
    pipe = Pipe()
    pipe.open_sequence()
    random = Random(1)
    for _ in range(20):
        pipe.drops = drop_all_of(pipe.parent)
        pipe.run(1.0)
        pipe.drops = drop_all_of()
        pipe.run(random.uniform(2.0, 5.0))
    assert pipe.parent.error == pipe.child.error == ""


def append_for(pipe: Pipe, seconds: float) -> None:
    """Append 40 events of 1,000 bytes each second: four times as many as may be sent."""
    for _ in range(round(seconds * 40)):
        an = pipe.sequence.sender.end
        pipe.append(make_range(an, an + 1, an + 1, document=bytes(1_000)))
        pipe.run(0.025)


def test_a_child_that_is_behind_by_more_than_the_buffer_is_closed() -> None:
    pipe = Pipe(SLOW)
    pipe.open_sequence()
    append_for(pipe, 5.0)
    assert pipe.parent.error == "" and pipe.parent.buffer.lagging_since is not None
    append_for(pipe, 5.0)
    assert pipe.parent.error == "lagging"
    assert pipe.parent.buffer.dropped_bytes > 30_000


def test_a_child_that_catches_up_is_kept() -> None:
    pipe = Pipe(SLOW)
    pipe.open_sequence()
    for _ in range(4):
        append_for(pipe, 4.0)
        pipe.run(5.0)
        assert pipe.parent.buffer.lagging_since is None
    assert pipe.parent.error == "" and pipe.parent.buffer.dropped_bytes > 0
    # Dropped events were stated as unavailable.
    assert pipe.child_owner.unavailable
    assert pipe.sequence.sender.is_acknowledged


# ------------------------------------------------------------------ FIN


@pytest.mark.parametrize("reason", ["leaving", "x" * 64])
def test_fin_ends_the_other_end_with_its_reason(reason: str) -> None:
    pipe = Pipe()
    pipe.run(1.0)
    pipe.parent.close(reason, pipe.now)
    pipe.run(0.1)
    assert pipe.child.error == pipe.parent.error == reason


def test_the_reason_is_cut_and_printable() -> None:
    pipe = Pipe()
    pipe.parent.close("n\xe9" + "x" * 100, pipe.now)
    pipe.child.close("", pipe.now)
    pipe.run(0.1)
    assert pipe.child.error == "n?" + "x" * 62


def test_fin_without_a_reason() -> None:
    pipe = Pipe()
    pipe.parent.writer.write(FIN, 0, 0, 0.0)
    pipe.run(0.1)
    assert pipe.child.error == "closed"


def test_the_first_reason_counts() -> None:
    pipe = Pipe()
    pipe.parent.close("first", pipe.now)
    pipe.parent.close("second", pipe.now)
    packets = [read(data) for data in pipe.parent.flush(pipe.now)]
    assert [each.body for each in packets if each.flags & FIN] == [b"first"]
    assert pipe.parent.error == "first"


def test_an_ended_connection_sends_and_receives_nothing() -> None:
    pipe = Pipe()
    pipe.run(1.0)
    pipe.child.send_control(Leaving())
    pipe.child.close("leaving", pipe.now)
    assert len(pipe.child.flush(pipe.now)) == 1
    received = pipe.child.received
    for receiver, data in pipe.carried:
        if receiver is pipe.child:
            pipe.child.receive(data, pipe.now)
    pipe.child.handle_timeout(pipe.now + 100.0)
    assert pipe.child.flush(pipe.now + 100.0) == [] and pipe.child.received == received
    assert pipe.child.error == "leaving"


def test_a_bad_control_message_ends_the_connection() -> None:
    pipe = Pipe()
    pipe.child.buffer.send_control(b"\0\0\0\3abc")
    pipe.run(0.1)
    assert pipe.parent.error.startswith("a bad control message: ")
    assert pipe.child.error == pipe.parent.error and pipe.parent_owner.messages == []


def test_a_forged_fin_ends_nothing() -> None:
    pipe = Pipe()
    pipe.parent.close("leaving", pipe.now)
    (data,) = pipe.parent.flush(pipe.now)
    assert MAC.remove_tag(data) is not None
    pipe.child.receive(data[:-1] + bytes([data[-1] ^ 1]), pipe.now)
    assert pipe.child.error == "" and pipe.child.malformed == 1
