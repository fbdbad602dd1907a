from __future__ import annotations

import attrs
import pytest
from zope.interface import implementer
from zope.interface.verify import verifyObject

from broker.errors import StackError
from broker.transport.faults import DelayLayer, DiscardLayer, ShuffleLayer
from broker.transport.layer import ILayer, ILayerCore, PassThrough, Property
from broker.transport.p2p import P2PLayer
from broker.transport.socket import TCP_PROPERTIES
from broker.transport.stack import Stack, check_layers

NOTHING: frozenset[Property] = frozenset()
P2P_PROPERTIES = frozenset(Property) - {Property.AUTHENTICATED}


@implementer(ILayer)
@attrs.frozen(kw_only=True)
class Plain:
    name: str
    requires: frozenset[Property] = NOTHING
    provides: frozenset[Property] = NOTHING
    breaks: frozenset[Property] = NOTHING
    version: int = 1

    def create_core(self) -> PassThrough:
        return PassThrough()


ORDER = Plain(name="order", requires=frozenset({Property.FIFO}))
SHUFFLE = ShuffleLayer(seed=1, rate=0.1)


def test_a_pass_through_core_is_a_core() -> None:
    assert verifyObject(ILayerCore, PassThrough())


def test_an_empty_stack_has_the_properties_of_the_socket() -> None:
    assert check_layers([], TCP_PROPERTIES) == TCP_PROPERTIES


def test_a_layer_adds_what_it_provides_and_takes_what_it_breaks() -> None:
    held = check_layers([P2PLayer(incarnation=1), SHUFFLE], TCP_PROPERTIES)
    assert held == P2P_PROPERTIES - {Property.FIFO, Property.RESUMABLE}


def test_the_layer_that_breaks_a_property_is_named() -> None:
    layers = [SHUFFLE, DiscardLayer(seed=1, rate=0.1), ORDER]
    with pytest.raises(StackError) as caught:
        check_layers(layers, TCP_PROPERTIES)
    assert str(caught.value) == "layer 'order' requires fifo, which layer 'shuffle' breaks"


def test_the_nearest_layer_that_breaks_a_property_is_named() -> None:
    farther = Plain(name="farther", breaks=frozenset({Property.FIFO}))
    with pytest.raises(StackError, match="which layer 'shuffle' breaks"):
        check_layers([farther, SHUFFLE, ORDER], TCP_PROPERTIES)


def test_the_layer_without_a_required_property_is_named() -> None:
    delay = DelayLayer(seed=1, minimum=0, maximum=1)
    with pytest.raises(StackError) as caught:
        check_layers([delay, ORDER], frozenset({Property.FRAMED}))
    assert str(caught.value) == (
        "layer 'order' requires fifo, which layer 'delay' below it does not provide"
    )


def test_the_socket_channel_is_named_if_a_property_is_missing() -> None:
    with pytest.raises(StackError, match="requires framed, which the socket channel below it"):
        check_layers([P2PLayer(incarnation=1)], frozenset({Property.OUTAGE_NOTICE}))


def test_a_property_that_is_provided_again_above_the_break_is_there() -> None:
    check_layers([SHUFFLE, P2PLayer(incarnation=1), ORDER], TCP_PROPERTIES)


def test_a_stack_is_checked_when_it_is_built() -> None:
    with pytest.raises(StackError):
        Stack("bad", [SHUFFLE, ORDER], TCP_PROPERTIES)
    stack = Stack("good", [P2PLayer(incarnation=1), ORDER], TCP_PROPERTIES)
    assert stack.provides == P2P_PROPERTIES
    assert [verifyObject(ILayerCore, core) for core in stack.create_cores()] == [True, True]
