"""The layer of the example runs over raw datagrams, alone and above other layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
from two_parents.stop_and_wait import StopAndWaitLayer, StopAndWaitOptions
from zope.interface.verify import verifyObject

from broker.errors import Overloaded, StackError
from broker.testing.datagram_network import DatagramFaults
from broker.transport.arq import FragmentationLayer, MacLayer, PacingLayer
from broker.transport.layer import ILayer, ILinkCore, ILinkLayer, Property
from broker.transport.p2p import P2PLayer
from broker.transport.socket import DATAGRAM_PROPERTIES
from broker.transport.stack import check_layers
from tests.seeds import seeds
from tests.transport.datagram_ends import DatagramLink, End


def alone(incarnation: int) -> Sequence[ILayer]:
    return [StopAndWaitLayer(incarnation, StopAndWaitOptions())]


def patient(incarnation: int) -> Sequence[ILayer]:
    return [StopAndWaitLayer(incarnation, StopAndWaitOptions(tries=1000))]


def above_others(incarnation: int) -> Sequence[ILayer]:
    return [
        PacingLayer(rate=1e6),
        MacLayer(secret=b"secret"),
        FragmentationLayer(incarnation=incarnation, packet_bytes=300),
        *alone(incarnation),
    ]


def drawn_faults(random: Random) -> DatagramFaults:
    return DatagramFaults(
        loss=random.choice([0.0, 0.1, 0.3]),
        duplication=random.choice([0.0, 0.3]),
        delay=random.choice([0.0001, 0.01]),
        jitter=random.choice([0.0, 0.01, 0.1]),
    )


def test_it_is_a_layer_that_fits_on_raw_datagrams_and_p2p_is_not() -> None:
    (layer,) = alone(1)
    assert verifyObject(ILinkLayer, layer)
    assert verifyObject(ILinkCore, layer.create_core())
    held = check_layers([layer], DATAGRAM_PROPERTIES)
    assert held == {Property.FRAMED, Property.FIFO}
    with pytest.raises(StackError, match="'p2p' requires messages of any size"):
        check_layers([layer, P2PLayer(incarnation=1)], DATAGRAM_PROPERTIES)


@pytest.mark.parametrize("seed", seeds(20, 1000))
@pytest.mark.parametrize(("layers", "largest"), [(alone, 1000), (above_others, 800)])
def test_messages_arrive_once_and_in_order_on_a_bad_network(
    layers: Callable[[int], Sequence[ILayer]], largest: int, seed: int
) -> None:
    random = Random(seed)
    link = DatagramLink(seed, layers, drawn_faults(random))
    there = [random.randbytes(random.randint(1, largest)) for _ in range(50)]
    back = [random.randbytes(random.randint(1, largest)) for _ in range(20)]
    for message in there:
        link.here.driver.send([message])
    link.run(lambda: bool(link.there.messages), 30.0)
    link.there.driver.send(back)
    done = link.run(lambda: (len(link.there.messages), len(link.here.messages)) == (50, 20), 600.0)
    assert done, f"seed {seed}"
    link.run(lambda: False, 2.0)
    assert (link.there.messages, link.here.messages) == (there, back), f"seed {seed}"
    assert link.errors == []


def test_a_restarted_end_begins_anew() -> None:
    link = DatagramLink(1, alone, DatagramFaults(loss=0.2, jitter=0.05))
    link.here.driver.send([b"%d" % number for number in range(10)])
    assert link.run(lambda: len(link.there.messages) == 10, 60.0)
    link.here = End(link.clock, alone(3))
    link.here.driver.attach(link.here_port.connect(("there", 2)))
    link.here.driver.send([b"again"])
    assert link.run(lambda: len(link.there.messages) == 11, 60.0)
    link.there.driver.send([b"answer"])
    assert link.run(lambda: link.here.messages == [b"answer"], 60.0)
    assert link.there.messages[-1] == b"again"


def test_a_cut_is_survived_and_the_queue_is_bounded() -> None:
    link = DatagramLink(1, patient)
    link.network.cut(("here", 1), ("there", 2))
    link.here.driver.send([b"x"] * 1000)
    with pytest.raises(Overloaded):
        link.here.driver.send([b"y"])
    link.run(lambda: False, 5.0)
    link.network.heal()
    assert link.run(lambda: len(link.there.messages) == 1000, 60.0)


def test_messages_for_a_peer_that_is_gone_are_dropped() -> None:
    link = DatagramLink(1, alone)
    link.network.cut(("here", 1), ("there", 2))
    link.here.driver.send([b"x"] * 1000)
    link.run(lambda: False, 6.0)
    assert link.clock.getDelayedCalls() == []
    link.network.heal()
    link.here.driver.send([b"y"])
    assert link.run(lambda: link.there.messages == [b"y"], 5.0)


def test_no_timer_is_left_when_all_is_acknowledged_and_closed() -> None:
    link = DatagramLink(1, alone)
    link.here.driver.send([b"a"])
    assert link.run(lambda: bool(link.there.messages), 5.0)
    for end in (link.here, link.there):
        end.driver.close()
    link.run(lambda: False, 15.0)
    assert link.clock.getDelayedCalls() == []
