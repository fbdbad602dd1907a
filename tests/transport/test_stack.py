from __future__ import annotations

import attrs
import pytest
from zope.interface import implementer
from zope.interface.verify import verifyObject

from broker.errors import StackError
from broker.transport.faults import DelayLayer, DiscardLayer, ShuffleLayer
from broker.transport.layer import (
    ILayer,
    ILayerCore,
    ILinkCore,
    ILinkLayer,
    LinkPassThrough,
    PassThrough,
    Property,
)
from broker.transport.multicast import MulticastLayer
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


@implementer(ILinkLayer)
@attrs.frozen(kw_only=True)
class PlainLink(Plain):
    def create_core(self) -> LinkPassThrough:  # type: ignore[override]
        return LinkPassThrough()


ORDER = Plain(name="order", requires=frozenset({Property.FIFO}))
DELAY = DelayLayer(seed=1, minimum=0, maximum=1)
SHUFFLE = ShuffleLayer(seed=1, rate=0.1)


def test_a_pass_through_core_is_a_core() -> None:
    assert verifyObject(ILayerCore, PassThrough())
    assert verifyObject(ILinkCore, LinkPassThrough())


def test_an_empty_stack_has_the_properties_of_the_socket() -> None:
    assert check_layers([], TCP_PROPERTIES) == TCP_PROPERTIES


def test_a_layer_adds_what_it_provides_and_takes_what_it_breaks() -> None:
    held = check_layers([P2PLayer(incarnation=1), SHUFFLE], TCP_PROPERTIES)
    assert held == P2PLayer.provides - {Property.FIFO, Property.RESUMABLE}


def test_the_layer_that_breaks_a_property_is_named() -> None:
    layers = [SHUFFLE, DiscardLayer(seed=1, rate=0.1), ORDER]
    with pytest.raises(StackError) as caught:
        check_layers(layers, TCP_PROPERTIES)
    assert str(caught.value) == "layer 'order' requires fifo, which layer 'shuffle' breaks"


def test_the_nearest_layer_that_breaks_a_property_is_named() -> None:
    farther = PlainLink(name="farther", breaks=frozenset({Property.FIFO}))
    with pytest.raises(StackError, match="which layer 'shuffle' breaks"):
        check_layers([farther, SHUFFLE, ORDER], TCP_PROPERTIES)


def test_the_layer_without_a_required_property_is_named() -> None:
    with pytest.raises(StackError) as caught:
        check_layers([DELAY, ORDER], frozenset({Property.FRAMED}))
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
    assert stack.provides == P2PLayer.provides


def test_the_links_end_below_the_layers_of_all_links() -> None:
    with pytest.raises(StackError) as caught:
        Stack("bad", [P2PLayer(incarnation=1), ORDER, DELAY], TCP_PROPERTIES)
    assert str(caught.value) == (
        "layer 'delay' is a layer of one link, and layer 'order' below it is not"
    )


def test_what_holds_for_several_peers_is_required_by_name() -> None:
    total = Plain(name="total", requires=frozenset({Property.TOTAL_ORDER}))
    with pytest.raises(StackError) as caught:
        Stack("bad", [P2PLayer(incarnation=1), MulticastLayer(), total], TCP_PROPERTIES)
    assert str(caught.value) == (
        "layer 'total' requires one order for all, which layer 'multicast' below it does not "
        "provide"
    )
    ordered = Plain(name="igo", provides=frozenset({Property.TOTAL_ORDER}))
    layers = [P2PLayer(incarnation=1), MulticastLayer(), ordered, total]
    assert Property.SENDER_ORDER in Stack("good", layers, TCP_PROPERTIES).provides
    with pytest.raises(StackError, match="'multicast' requires fifo, which layer 'shuffle' breaks"):
        Stack("bad", [SHUFFLE, MulticastLayer()], TCP_PROPERTIES)
