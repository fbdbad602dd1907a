from __future__ import annotations

import pytest

from broker.errors import ProtocolError, VersionMismatch
from broker.transport.effects import (
    DeliverUp,
    SendDown,
    ViewChanged,
)
from broker.transport.p2p import wire
from broker.transport.p2p.core import Connection
from broker.transport.p2p.wire import MESSAGE_COST, Resume
from broker.transport.view import LinkState, View
from tests.transport.p2p.one_end import (
    DOWN,
    PEER,
    UP,
    US,
    WINDOW,
    failure,
    new_core,
    only,
    open_core,
    said,
    sent_data,
    sent_kinds,
)


def test_a_new_connection_starts_with_a_complete_resume() -> None:
    core = new_core()
    greeting = wire.decode_resume(
        wire.decode_packet(only(core.view_changed(UP, 0.0), SendDown).packets[0])[1]
    )
    assert greeting == Resume(US, known=0, received=0, limit=WINDOW, window=WINDOW)
    core.receive([said(), *wire.encode_data(1, 0, WINDOW, [b"a" * 36, b"b" * 36])], 0.0)
    core.consumed(1, 0.0)
    core.view_changed(DOWN, 1.0)
    greeting = wire.decode_resume(
        wire.decode_packet(only(core.view_changed(UP, 2.0), SendDown).packets[0])[1]
    )
    assert greeting == Resume(US, known=PEER, received=2, limit=WINDOW + 100, window=WINDOW)


def test_nothing_is_sent_before_the_resume_of_the_peer() -> None:
    core = new_core()
    assert core.submit([b"early"], 0.0) == []
    assert sent_kinds(core.view_changed(UP, 0.0)) == [wire.RESUME]
    assert core.submit([b"later"], 0.0) == []
    effects = core.receive([said()], 0.0)
    assert isinstance(effects[0], ViewChanged)
    assert sent_data(effects) == [(1, b"early"), (2, b"later")]


def test_messages_submitted_before_any_peer_go_to_the_first_peer() -> None:
    core = new_core()
    core.submit([b"one", b"two"], 0.0)
    effects = open_core(core)
    assert only(effects, ViewChanged).view == View(LinkState.CONNECTED)
    assert sent_data(effects) == [(1, b"one"), (2, b"two")]


def test_a_peer_that_kept_its_state_gets_the_rest() -> None:
    core = new_core()
    open_core(core)
    core.submit([b"one", b"two", b"three"], 0.0)
    core.view_changed(DOWN, 1.0)
    core.submit([b"four"], 1.0)
    effects = open_core(core, said(known=US, received=2, limit=WINDOW + 150))
    assert only(effects, ViewChanged).view == View(LinkState.CONNECTED, resumed=True)
    assert sent_data(effects) == [(3, b"three"), (4, b"four")]
    assert core.sender.resent == 1


def test_a_restarted_peer_gets_no_messages_for_its_previous_incarnation() -> None:
    core = new_core()
    open_core(core)
    core.submit([b"one", b"two"], 0.0)
    core.receive([wire.encode_ack(1, WINDOW)], 0.0)
    core.view_changed(DOWN, 1.0)
    core.submit([b"three"], 1.0)
    effects = open_core(core, said(incarnation=PEER + 1))
    assert only(effects, ViewChanged).view == View(LinkState.CONNECTED, undelivered=2)
    assert sent_data(effects) == []
    assert sent_data(core.submit([b"new"], 2.0)) == [(1, b"new")]


def test_only_repetitions_to_the_same_peer_count_as_resent() -> None:
    core = new_core()
    open_core(core)
    core.submit([b"one", b"two"], 0.0)
    for greeting in (said(known=US, limit=100), said(known=US), said(incarnation=PEER + 1)):
        core.view_changed(DOWN, 1.0)
        open_core(core, greeting)
    assert core.sender.resent == 1 + 2
    core.submit([b"new"], 1.0)
    assert core.sender.resent == 3


def test_a_restarted_peer_with_our_resume_is_still_a_new_peer() -> None:
    core = new_core()
    open_core(core)
    core.submit([b"one"], 0.0)
    core.view_changed(DOWN, 1.0)
    effects = open_core(core, said(incarnation=PEER + 1, known=US))
    assert only(effects, ViewChanged).view == View(LinkState.CONNECTED, undelivered=1)


def test_messages_of_a_restarted_peer_start_at_one_again() -> None:
    core = new_core()
    open_core(core)
    core.receive(wire.encode_data(1, 0, WINDOW, [b"old"] * 3), 0.0)
    core.view_changed(DOWN, 1.0)
    open_core(core, said(incarnation=PEER + 1))
    effects = core.receive(wire.encode_data(1, 0, WINDOW, [b"new"]), 1.0)
    assert only(effects, DeliverUp).messages == [b"new"]


def test_a_restarted_peer_gets_its_limit_at_once_less_unconsumed_messages() -> None:
    core = new_core()
    open_core(core)
    core.receive(wire.encode_data(1, 0, WINDOW, [bytes(1000 - MESSAGE_COST)] * 3), 0.0)
    core.view_changed(DOWN, 1.0)
    effects = open_core(core, said(incarnation=PEER + 1))
    (packet,) = only(effects, SendDown).packets
    assert wire.decode_packet(packet)[1] == (0, WINDOW - 3000)
    # The old messages are consumed first, and return their credit.
    core.consumed(3, 1.0)
    assert core.receiver.announce_credit()[1] == WINDOW


def test_a_limit_that_was_meant_for_another_incarnation_of_ours_is_not_used() -> None:
    core = new_core()
    core.submit([b"one"], 0.0)
    effects = open_core(core, said(known=US - 1, received=99, limit=10**9))
    assert only(effects, ViewChanged).view == View(LinkState.CONNECTED)
    assert sent_data(effects) == []
    assert sent_data(core.receive([wire.encode_ack(0, WINDOW)], 0.0)) == [(1, b"one")]


@pytest.mark.parametrize("known", [0, US - 1])
def test_a_peer_without_our_resume_gets_everything_from_one(known: int) -> None:
    core = new_core()
    open_core(core, said(known=known))
    core.submit([b"one"], 0.0)
    core.view_changed(DOWN, 1.0)
    effects = open_core(core, said(known=known))
    assert only(effects, ViewChanged).view == View(LinkState.CONNECTED, resumed=True)
    effects += core.receive([wire.encode_ack(0, WINDOW)], 1.0)
    assert sent_data(effects) == [(1, b"one")]


@pytest.mark.parametrize(
    "proof",
    [
        [said(known=US)],
        [said(), wire.encode_ack(0, WINDOW)],
        [said(), wire.encode_ping(0)],
        [said(), *wire.encode_data(1, 0, WINDOW, [b"x"])],
    ],
    ids=["greeting", "ack", "ping", "data"],
)
def test_a_peer_that_knew_us_and_forgot_starts_from_nothing_with_us(proof: list[bytes]) -> None:
    core = new_core()
    core.view_changed(UP, 0.0)
    core.receive(proof, 0.0)
    core.submit([b"one", b"two"], 0.0)
    core.view_changed(DOWN, 1.0)
    effects = open_core(core, said(known=US + 1))
    assert only(effects, ViewChanged).view == View(LinkState.CONNECTED, undelivered=2)
    assert core.receiver.received == 0


@pytest.mark.parametrize(
    "greeting",
    [
        said(known=US, received=3),  # more than was sent
        said(known=US, received=0),  # less than was acknowledged
        said(incarnation=PEER + 1, known=US, received=1),  # a new peer that has messages
    ],
    ids=["more", "less", "newborn"],
)
def test_a_peer_with_an_impossible_resume_is_refused(greeting: bytes) -> None:
    core = new_core()
    open_core(core)
    core.submit([b"one", b"two"], 0.0)
    core.receive([wire.encode_ack(1, WINDOW)], 0.0)
    core.view_changed(DOWN, 1.0)
    assert isinstance(failure(open_core(core, greeting)), ProtocolError)
    assert core.connection is Connection.DOWN
    assert len(core.sender) == 1


def test_a_peer_of_another_version_is_refused_with_both_versions_named() -> None:
    core = new_core()
    greeting = wire.encode_resume(Resume(PEER, 0, 0, WINDOW, WINDOW, version=9))
    error = failure(open_core(core, greeting))
    assert isinstance(error, VersionMismatch)
    assert "9" in error.text and str(wire.VERSION) in error.text


def test_a_repeated_resume_is_ignored_and_another_one_refused() -> None:
    core = new_core()
    open_core(core)
    assert core.receive([said()], 0.0) == []
    assert isinstance(failure(core.receive([said(limit=1)], 0.0)), ProtocolError)
