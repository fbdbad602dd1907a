"""Connections as a layer: over raw datagrams, below p2p, and with all orders of dialling."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from zope.interface.verify import verifyObject

from broker.errors import PeerSilent, StackError, VersionMismatch
from broker.testing.datagram_network import DatagramFaults
from broker.transport.arq import ArqSettings, ConnectionLayer, MacLayer
from broker.transport.arq.connection_layer import ConnectionLayerCore
from broker.transport.arq.handshake import UNKEYED_MAC
from broker.transport.effects import Effect, SendDown
from broker.transport.layer import ILayer, ILinkCore, ILinkLayer, Property
from broker.transport.p2p import P2PLayer
from broker.transport.socket import DATAGRAM_PROPERTIES, TCP_PROPERTIES
from broker.transport.stack import check_layers
from broker.transport.view import LinkState, View
from tests.seeds import seeds
from tests.transport.datagram_ends import HERE, THERE, DatagramLink, End

CONNECTED, DISCONNECTED = LinkState.CONNECTED, LinkState.DISCONNECTED
SMALL: dict[str, Any] = {"window": 32, "send_buffer_bytes": 20_000, "datagram_bytes": 400}


def make_layer(incarnation: int, dials: bool | None = None, **settings: float) -> ConnectionLayer:
    return ConnectionLayer(
        dials=incarnation == 1 if dials is None else dials,
        settings=ArqSettings(**{"datagram_bytes": 1300, **settings}),  # type: ignore[arg-type]
        entropy=Random(incarnation).randbytes,
        max_message=1024 * 1024,
    )


def alone(incarnation: int) -> Sequence[ILayer]:
    return [make_layer(incarnation)]


def states(end: End) -> list[LinkState]:
    return [view.state for view in end.views]


def core_of(end: End) -> ConnectionLayerCore:
    core = end.driver.cores[-1]
    assert isinstance(core, ConnectionLayerCore)
    return core


def sent(effects: Sequence[Effect]) -> list[bytes]:
    return [each for effect in effects if isinstance(effect, SendDown) for each in effect.packets]


def drawn_faults(random: Random) -> DatagramFaults:
    return DatagramFaults(
        loss=random.choice([0.0, 0.02, 0.2, 0.4]),
        duplication=random.choice([0.0, 0.1, 0.3]),
        corruption=random.choice([0.0, 0.05]),
        delay=random.choice([0.0001, 0.005, 0.1]),
        jitter=random.choice([0.0, 0.01, 0.1]),
    )


def test_it_gives_the_properties_of_tcp_over_raw_datagrams() -> None:
    layer = make_layer(1)
    assert verifyObject(ILinkLayer, layer)
    assert verifyObject(ILinkCore, layer.create_core())
    assert check_layers([layer], DATAGRAM_PROPERTIES) == TCP_PROPERTIES
    held = check_layers([MacLayer(secret=b"s"), layer], DATAGRAM_PROPERTIES)
    assert held == TCP_PROPERTIES | {Property.AUTHENTICATED}
    with pytest.raises(StackError):
        check_layers([P2PLayer(incarnation=1)], DATAGRAM_PROPERTIES)


@pytest.mark.parametrize("dialling", [(True, False), (True, True)])
@pytest.mark.parametrize("seed", seeds(5, 500))
def test_messages_of_any_size_arrive_once_and_in_order(
    seed: int, dialling: tuple[bool, bool]
) -> None:
    random = Random(seed)

    def layers(incarnation: int) -> Sequence[ILayer]:
        dials = dialling[incarnation - 1]
        return [make_layer(incarnation, dials, liveness=60.0, handshake_timeout=60.0, **SMALL)]

    link = DatagramLink(seed, layers, drawn_faults(random))
    connected = link.run(
        lambda: states(link.here) == states(link.there) == [CONNECTED],
        60.0,
    )
    assert connected, f"seed {seed}"
    sent = [random.randbytes(random.randint(1, random.choice([20, 800, 9000]))) for _ in range(60)]
    link.here.driver.send(sent)
    link.there.driver.send(sent[::-1])
    link.run(lambda: len(link.here.messages) == len(link.there.messages) == 60, 300.0)
    assert link.there.messages == sent, f"seed {seed}"
    assert link.here.messages == sent[::-1], f"seed {seed}"
    assert link.errors == []


@pytest.mark.parametrize("seed", seeds(2, 100))
def test_p2p_over_it_is_the_stack_of_links_between_nodes(seed: int) -> None:
    def layers(incarnation: int) -> Sequence[ILayer]:
        return [make_layer(incarnation), P2PLayer(incarnation=incarnation)]

    faults = DatagramFaults(loss=0.1, duplication=0.05, corruption=0.02, delay=0.005, jitter=0.01)
    link = DatagramLink(seed, layers, faults)
    sent = [b"%d" % number + bytes(number * 7 % 3000) for number in range(300)]
    for number, message in enumerate(sent):
        if number == 150:
            link.network.cut(HERE, THERE)
        link.here.driver.send([message])
        link.there.driver.send([message])
        link.run(lambda: False, 0.01)
    link.run(lambda: DISCONNECTED in states(link.here), 30.0)
    link.run(lambda: DISCONNECTED in states(link.there), 30.0)
    link.network.heal()
    link.here.driver.attach(link.here_port.connect(THERE))
    link.run(lambda: len(link.here.messages) == len(link.there.messages) == 300, 60.0)
    assert link.here.messages == link.there.messages == sent
    assert states(link.here)[-1] is CONNECTED
    assert link.here.views[-1].resumed
    assert link.errors == []


def test_messages_of_one_turn_share_a_datagram() -> None:
    link = DatagramLink(1, alone)
    assert link.run(lambda: CONNECTED in states(link.there), 5.0)
    link.run(lambda: False, 1.0)
    carried: list[bytes] = []
    link.network.filter = lambda datagram, source, _: carried.append(datagram) or True  # type: ignore[func-returns-value]
    for number in range(10):
        link.here.driver.send([b"%d" % number])
    link.run(lambda: len(link.there.messages) == 10, 5.0)
    assert len(carried) == 1


def test_a_silent_peer_ends_the_connection_at_both_ends() -> None:
    link = DatagramLink(1, alone)
    assert link.run(lambda: CONNECTED in states(link.there), 5.0)
    link.run(lambda: False, 60.0)
    assert states(link.here) == states(link.there) == [CONNECTED]
    link.network.cut(HERE, THERE)
    link.run(lambda: len(link.here.views + link.there.views) == 4, 30.0)
    for end in (link.here, link.there):
        assert states(end) == [CONNECTED, DISCONNECTED]
        assert isinstance(end.views[-1].error, PeerSilent)
    link.run(lambda: False, 60.0)
    assert link.clock.getDelayedCalls() == []


def test_an_unanswered_dial_fails_and_an_acceptor_reports_nothing() -> None:
    link = DatagramLink(1, alone)
    link.there_users.stop()
    link.run(lambda: bool(link.here.views), 30.0)
    assert states(link.here) == [DISCONNECTED]
    assert isinstance(link.here.views[0].error, PeerSilent)
    assert link.there.views == []


def test_a_restarted_dialler_replaces_its_connection() -> None:
    link = DatagramLink(1, alone)
    assert link.run(lambda: CONNECTED in states(link.there), 5.0)
    link.here.driver.abort(PeerSilent("the process was killed"))
    link.here = End(link.clock, [make_layer(3, dials=True)])
    link.here.driver.attach(link.here_port.connect(THERE))
    assert link.run(lambda: len(link.there.views) == 3, 5.0)
    assert states(link.there) == [CONNECTED, DISCONNECTED, CONNECTED]
    link.here.driver.send([b"new"])
    assert link.run(lambda: link.there.messages == [b"new"], 5.0)


def test_a_full_buffer_stops_the_user_and_a_new_connection_lets_it_continue() -> None:
    def layers(incarnation: int) -> Sequence[ILayer]:
        return [make_layer(incarnation, **SMALL)]

    link = DatagramLink(1, layers)
    assert link.run(lambda: CONNECTED in states(link.there), 5.0)
    link.here.driver.send([bytes(1000)] * 15)
    assert link.here.writable == [False]
    assert link.run(lambda: link.here.writable == [False, True], 5.0)
    link.network.cut(HERE, THERE)
    link.here.driver.send([bytes(1000)] * 15)
    assert link.run(lambda: DISCONNECTED in states(link.here), 30.0)
    assert link.here.writable == [False, True, False, True]
    link.here.driver.send([b"lost"])
    assert core_of(link.here).dropped == 1


def test_another_version_ends_the_dial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.transport.arq.handshake.VERSION", 99)
    link = DatagramLink(1, alone)
    monkeypatch.undo()
    link.run(lambda: bool(link.here.views), 5.0)
    assert isinstance(link.here.views[0].error, VersionMismatch)
    assert core_of(link.there).counts.refused >= 1


def test_a_cookie_is_valid_on_the_channel_that_it_was_sent_to_only() -> None:
    acceptor, dialler = make_layer(2).create_core(), make_layer(1).create_core()
    connected, lost = View(CONNECTED), View(DISCONNECTED)
    acceptor.view_changed(connected, 0.0)
    (hello,) = sent(dialler.view_changed(connected, 0.0))
    (cookie,) = sent(acceptor.receive([hello], 0.0))
    (open_request,) = sent(dialler.receive([cookie], 0.0))
    acceptor.view_changed(lost, 1.0)
    acceptor.view_changed(connected, 1.0)
    # The channel may have another address, which the dialler has not proven.
    assert sent(acceptor.receive([open_request], 1.0)) == []
    assert acceptor.counts.bad_cookies == 1


def test_noise_and_floods_of_handshakes_are_counted_and_bounded() -> None:
    link = DatagramLink(1, alone)
    assert link.run(lambda: CONNECTED in states(link.there), 5.0)
    core = core_of(link.there)
    assert core.connection is not None
    random = Random(1)
    for _ in range(3000):
        noise = bytes([random.randrange(16)]) + random.randbytes(random.randrange(80))
        identity = random.choice([core.connection.own_id, random.getrandbits(64)])
        noise = noise[:1] + identity.to_bytes(8, "big") + noise[9:]
        core.receive([noise, UNKEYED_MAC.add_tag(noise), noise[:5]], link.clock.seconds())
    assert core.counts.malformed > 3000
    link.here.driver.send([b"after"])
    assert link.run(lambda: link.there.messages == [b"after"], 5.0)
    assert states(link.there) == [CONNECTED]


def test_a_half_open_connection_ends_without_a_proof_of_the_key() -> None:
    link = DatagramLink(1, alone)
    heard: list[bytes] = []

    def carry(datagram: bytes, source: object, target: object) -> bool:
        # ACCEPT is lost, so that the dialler has no key.
        heard.append(datagram)
        return datagram[4] != 4

    link.network.filter = carry
    core = core_of(link.there)
    assert link.run(lambda: core._half_open is not None, 2.0)
    assert states(link.there) == []
    link.run(lambda: bool(link.here.views), 30.0)
    link.run(lambda: core._half_open is None, 30.0)
    assert (core._half_open, core.connection) == (None, None)
    link.run(lambda: False, 1.0)
    assert link.clock.getDelayedCalls() == []
