from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from broker.transport.driver import StackDriver
from broker.transport.effects import DeliverUp, Failed
from broker.transport.layer import ILinkCore, ILinkLayer
from broker.transport.p2p import P2PLayer
from tests.transport.documented import DOCUMENT, documented


def documented_layer() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(documented("python")[0], str(DOCUMENT), "exec"), names)
    return names


def test_the_documented_layer_keeps_the_contract_and_fits_under_p2p() -> None:
    layer = documented_layer()["TallyLayer"](2)
    core = layer.create_core()
    assert verifyObject(ILinkLayer, layer)
    assert verifyObject(ILinkCore, core)
    assert core.receive([b"a", b"b"], 0.0) == [DeliverUp([b"a", b"b"])]
    assert isinstance(core.receive([b"a"] * 3, 0.0)[0], Failed)
    assert core.count == 2
    StackDriver([layer, P2PLayer(incarnation=7)], Clock())
