from __future__ import annotations

from typing import Any

import pytest
from zope.interface.verify import verifyObject

from broker.errors import ConfigurationError
from broker.transport.layer import ILinkCore, ILinkLayer, Property
from broker.transport.p2p import P2PLayer
from broker.transport.socket import TCP_PROPERTIES
from broker.transport.stack import check_layers


def test_it_is_a_layer_and_makes_cores_that_share_nothing() -> None:
    layer = P2PLayer(incarnation=1)
    assert verifyObject(ILinkLayer, layer)
    one, two = layer.create_core(), layer.create_core()
    assert verifyObject(ILinkCore, one)
    one.submit([b"x"], 0.0)
    assert len(two.sender) == 0


def test_it_gives_all_that_holds_for_one_link_over_tcp() -> None:
    others = {
        *(Property.ONE_TO_MANY, Property.SENDER_ORDER, Property.AUTHENTICATED),
        *(Property.TOTAL_ORDER, Property.AGREED_MEMBERSHIP),
    }
    held = check_layers([P2PLayer(incarnation=1)], TCP_PROPERTIES)
    assert held == frozenset(Property) - others


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"incarnation": 0}, "incarnation"),
        ({"incarnation": 2**64}, "incarnation"),
        ({"window_bytes": 64}, "window_bytes"),
        ({"send_buffer_bytes": 0}, "send_buffer_bytes"),
        ({"keepalive": 0.0}, "keepalive"),
        ({"keepalive": 30.0}, "liveness"),
        ({"ack_delay": -1.0}, "ack_delay"),
        ({"ack_every": 0}, "ack_every"),
    ],
)
def test_a_setting_that_can_not_be_is_refused_by_name(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"p2p {name}"):
        P2PLayer(**{"incarnation": 1, **settings})
