from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from broker.errors import StackError
from broker.transport.driver import StackDriver
from broker.transport.effects import DeliverUp, Failed, SendDown
from broker.transport.layer import ILayer, ILayerCore, ILinkCore, ILinkLayer
from broker.transport.message import Message
from broker.transport.multicast import MulticastLayer
from broker.transport.p2p import P2PLayer
from tests.transport.documented import DOCUMENT, documented


def documented_layer(index: int) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(documented("python")[index], str(DOCUMENT), "exec"), names)
    return names


def test_the_documented_layer_keeps_the_contract_and_fits_under_p2p() -> None:
    layer = documented_layer(0)["TallyLayer"](2)
    core = layer.create_core()
    assert verifyObject(ILinkLayer, layer)
    assert verifyObject(ILinkCore, core)
    assert core.receive([b"a", b"b"], 0.0) == [DeliverUp([b"a", b"b"])]
    assert isinstance(core.receive([b"a"] * 3, 0.0)[0], Failed)
    assert core.count == 2
    StackDriver([layer, P2PLayer(incarnation=7)], Clock())


def test_the_documented_layer_above_the_links_keeps_the_contract_and_fits_on_multicast() -> None:
    layer = documented_layer(1)["ClockLayer"]()
    core = layer.create_core()
    assert verifyObject(ILayer, layer)
    assert verifyObject(ILayerCore, core)
    sent = Message(b"x", destinations=("a", "b"))
    assert core.submit([sent], 0.0) == [SendDown([sent])]
    received, short = Message(bytes(7) + b"\x09y"), Message(b"short")
    deliver, failed = core.receive([received, short], "a", 0.0)
    assert (deliver, received.payload) == (DeliverUp([received], "a"), b"y")
    assert isinstance(failed, Failed) and failed.peer == "a"
    assert (core.time, core.last) == (10, {"a": 9})
    core.peer_removed("a", 0.0)
    assert core.last == {}
    StackDriver([P2PLayer(incarnation=7), MulticastLayer(), layer], Clock())
    with pytest.raises(StackError, match="layer 'clock' requires"):
        StackDriver([P2PLayer(incarnation=7), layer], Clock())
