"""p2p above a monitor: it buffers while suspended, and goes on without RESUME."""

from __future__ import annotations

from broker.errors import IncarnationRefused
from broker.transport.effects import DeliverUp, SendDown, ViewChanged, WritableChanged
from broker.transport.p2p import P2PLayer, wire
from broker.transport.p2p.core import P2PCore
from broker.transport.view import NEGOTIATING, LinkState, View
from tests.transport.p2p.one_end import PEER, UP, US, WINDOW, failure, only, said, sent_data

SUSPECTED = View(LinkState.SUSPECTED, reason="silent")
DISCONNECTED = View(LinkState.DISCONNECTED)
BEGUN = View(LinkState.DISCONNECTED, is_new_connection=True)
RESTARTED = View(LinkState.DISCONNECTED, is_new_connection=True, is_restarted=True)
AGAIN = View(LinkState.CONNECTED, resumed=True)


def new_core() -> P2PCore:
    return P2PLayer(
        incarnation=US, window_bytes=WINDOW, send_buffer_bytes=20_000, is_monitored=True
    ).create_core()


def open_core() -> P2PCore:
    core = new_core()
    core.view_changed(BEGUN, 0.0)
    core.view_changed(UP, 0.0)
    core.receive([said()], 0.0)
    return core


def data(sequence: int, received: int = 0) -> bytes:
    return wire.encode_data(sequence, received, WINDOW, [b"message"])[0]


def test_it_has_no_timer_but_that_of_acknowledgements() -> None:
    core = open_core()
    assert core.next_timeout() is None
    core.receive([data(1)], 5.0)
    assert core.next_timeout() == 5.02
    (effect,) = core.handle_timeout(5.02)
    assert isinstance(effect, SendDown)
    assert core.next_timeout() is None


def test_a_suspended_connection_sends_nothing_and_delivers() -> None:
    core = open_core()
    core.submit([b"before"], 1.0)
    assert core.view_changed(SUSPECTED, 2.0) == [ViewChanged(SUSPECTED)]
    assert core.submit([b"meanwhile"], 3.0) == []
    assert core.receive([data(1, received=1)], 4.0) == [DeliverUp([b"message"])]
    assert core.next_timeout() is None
    effects = core.view_changed(AGAIN, 5.0)
    assert effects[0] == ViewChanged(AGAIN)
    # The message before was acknowledged, and nothing is sent twice.
    assert sent_data(effects) == [(2, b"meanwhile")]


def test_an_acknowledgement_follows_later() -> None:
    core = open_core()
    core.view_changed(SUSPECTED, 1.0)
    core.receive([data(1)], 2.0)
    effects = core.view_changed(AGAIN, 3.0)
    (packet,) = only(effects, SendDown).packets
    assert wire.decode_packet(packet)[:2] == (wire.ACK, (1, WINDOW))


def test_it_goes_on_after_a_disconnection_on_the_same_connection() -> None:
    core = open_core()
    core.view_changed(SUSPECTED, 1.0)
    assert core.view_changed(DISCONNECTED, 2.0) == [ViewChanged(DISCONNECTED)]
    core.submit([b"kept"], 3.0)
    assert sent_data(core.view_changed(AGAIN, 4.0)) == [(1, b"kept")]


def test_a_new_connection_begins_with_resume_while_the_owners_exchange_offers() -> None:
    core = open_core()
    core.submit([b"lost", b"arrived late"], 1.0)
    core.view_changed(SUSPECTED, 1.0)
    (packet,) = only(core.view_changed(BEGUN, 2.0), SendDown).packets
    assert packet[0] == wire.RESUME
    assert core.receive([said(known=US, received=1)], 3.0) == []
    effects = core.view_changed(UP, 4.0)
    assert only(effects, ViewChanged).view == View(LinkState.CONNECTED, resumed=True, since=3.0)
    assert sent_data(effects) == [(2, b"arrived late")]


def test_resume_may_come_later() -> None:
    core = open_core()
    core.view_changed(SUSPECTED, 1.0)
    core.submit([b"kept"], 1.0)
    core.view_changed(BEGUN, 2.0)
    assert core.view_changed(UP, 3.0) == []
    effects = core.receive([said(known=US)], 4.0)
    assert only(effects, ViewChanged).view == View(LinkState.CONNECTED, resumed=True, since=4.0)
    assert sent_data(effects) == [(1, b"kept")]


def test_a_reset_while_suspended_is_reported_although_another_connection_resumes() -> None:
    core = open_core()
    core.submit([b"lost"], 0.0)
    for incarnation, known in ((PEER + 1, 0), (PEER + 1, US)):
        core.view_changed(SUSPECTED, 1.0)
        core.view_changed(BEGUN, 2.0)
        assert core.receive([said(incarnation, known=known)], 2.0) == []
    view = only(core.view_changed(UP, 4.0), ViewChanged).view
    assert (view.resumed, view.undelivered) == (False, 1)


def test_messages_of_a_disconnected_peer_wait_until_it_is_connected() -> None:
    core = open_core()
    core.view_changed(SUSPECTED, 1.0)
    core.view_changed(DISCONNECTED, 2.0)
    assert core.receive([data(1)], 3.0) == []
    negotiating = View(LinkState.SUSPECTED, reason=NEGOTIATING)
    assert core.view_changed(negotiating, 4.0) == [ViewChanged(negotiating)]
    assert core.receive([data(2)], 5.0) == []
    effects = core.view_changed(AGAIN, 6.0)
    assert effects[:2] == [ViewChanged(AGAIN), DeliverUp([b"message"] * 2)]
    assert core.receive([data(3)], 7.0) == [DeliverUp([b"message"])]


def test_messages_of_a_disconnected_peer_wait_for_another_connection_too() -> None:
    core = new_core()
    core.view_changed(BEGUN, 0.0)
    core.receive([said(), data(1)], 0.0)
    core.view_changed(DISCONNECTED, 1.0)
    core.view_changed(BEGUN, 2.0)
    core.view_changed(UP, 2.0)
    effects = core.receive([said(known=US), data(2)], 3.0)
    assert [each.messages for each in effects if isinstance(each, DeliverUp)] == [
        [b"message"],
        [b"message"],
    ]


def test_waiting_messages_of_an_earlier_process_are_dropped() -> None:
    core = new_core()
    core.view_changed(BEGUN, 0.0)
    core.receive([said(), data(1)], 0.0)
    core.view_changed(DISCONNECTED, 1.0)
    core.view_changed(RESTARTED, 2.0)
    core.view_changed(UP, 2.0)
    effects = core.receive([said(PEER + 1)], 3.0)
    assert not any(isinstance(each, DeliverUp) for each in effects)
    assert core.receiver.unconsumed == 0


def test_an_older_incarnation_is_refused() -> None:
    core = open_core()
    core.view_changed(SUSPECTED, 1.0)
    core.view_changed(BEGUN, 2.0)
    assert isinstance(failure(core.receive([said(PEER - 1)], 3.0)), IncarnationRefused)


def test_a_full_buffer_stops_the_user_while_suspended() -> None:
    core = open_core()
    core.view_changed(SUSPECTED, 1.0)
    effects = core.submit([bytes(11_000)], 2.0)
    assert [type(effect).__name__ for effect in effects] == ["WritableChanged"]


def test_messages_after_the_restart_of_the_peer_are_for_its_new_process() -> None:
    core = open_core()
    core.view_changed(SUSPECTED, 1.0)
    core.submit([b"lost"], 1.0)
    core.view_changed(RESTARTED, 2.0)
    core.submit([b"kept"], 2.0)
    core.view_changed(UP, 3.0)
    effects = core.receive([said(PEER + 1)], 4.0)
    view = only(effects, ViewChanged).view
    assert (view.resumed, view.undelivered) == (False, 1)
    assert sent_data(effects) == [(1, b"kept")]


def test_a_reset_makes_room_again() -> None:
    core = open_core()
    core.view_changed(SUSPECTED, 1.0)
    core.submit([bytes(11_000)], 2.0)
    effects = core.view_changed(RESTARTED, 3.0)
    assert only(effects, WritableChanged).writable


def test_a_restart_before_the_first_resume_drops_messages_too() -> None:
    core = new_core()
    core.view_changed(BEGUN, 0.0)
    core.view_changed(UP, 0.0)
    core.submit([b"lost"], 1.0)
    core.view_changed(SUSPECTED, 1.0)
    core.view_changed(RESTARTED, 2.0)
    core.submit([b"kept"], 2.0)
    core.view_changed(UP, 3.0)
    effects = core.receive([said(PEER + 1)], 4.0)
    view = only(effects, ViewChanged).view
    assert (view.resumed, view.undelivered) == (False, 1)
    assert sent_data(effects) == [(1, b"kept")]


def test_what_waits_for_a_suspended_peer_is_dropped_on_request() -> None:
    core = open_core()
    core.submit([b"sent"], 0.0)
    core.view_changed(SUSPECTED, 1.0)
    effects = core.submit([bytes(11_000)], 2.0)
    assert effects == [WritableChanged(False)]
    assert core.drop_unsent(3.0) == [WritableChanged(True)]
    core.submit([b"later"], 4.0)
    core.view_changed(BEGUN, 5.0)
    core.receive([said(known=US, received=0)], 6.0)
    effects = core.view_changed(UP, 7.0)
    assert sent_data(effects) == [(1, b"sent"), (2, b"later")]
    # Nothing that was sent is dropped.
    assert core.drop_unsent(8.0) == [] and len(core.sender) == 2


def test_an_open_connection_has_more_room_than_a_suspended_one() -> None:
    core = open_core()
    core.view_changed(SUSPECTED, 1.0)
    assert core.submit([bytes(11_000)], 2.0) == [WritableChanged(False)]
    effects = core.view_changed(AGAIN, 3.0)
    assert WritableChanged(True) in effects
    assert WritableChanged(False) in core.submit([bytes(5_000)], 4.0)
