"""The layer in `docs/channels.md` is a real one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from broker.channel.driver import StackDriver
from broker.channel.effects import DeliverUp, Failed
from broker.channel.layer import ILayer, ILayerCore
from broker.channel.p2p import P2PLayer

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "channels.md"


def documented() -> dict[str, Any]:
    found = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(compile(found[1], str(DOCUMENT), "exec"), names)
    return names


def test_the_documented_layer_keeps_the_contract_and_fits_under_p2p() -> None:
    layer = documented()["TallyLayer"](2)
    core = layer.create_core()
    assert verifyObject(ILayer, layer)
    assert verifyObject(ILayerCore, core)
    assert core.receive([b"a", b"b"], None, 0.0) == [DeliverUp([b"a", b"b"])]
    assert isinstance(core.receive([b"a"] * 3, None, 0.0)[0], Failed)
    assert core.count == 2
    StackDriver([layer, P2PLayer(incarnation=7)], Clock())
