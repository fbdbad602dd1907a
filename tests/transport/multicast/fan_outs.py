"""Networks of sites over each fan-out."""

from __future__ import annotations

from typing import Any

from broker.testing.fan_out_network import FanOutNetwork
from plugins.rcm.settings import RcmLinkSettings
from plugins.rcm.stack import rcm_links

FAN_OUTS = ("copies", "tree", "group")
TEN = tuple("abcdefghij")
#: Of a message that is shared.
SIZE = 1000


def link_sites(
    fan_out: str, *names: str, seed: int = 0, datagram_loss: float = 0.0, **options: Any
) -> FanOutNetwork:
    settings = {"suspect": 15.0, "group": "239.1.2.3:9000", "group_interface": "lo", **options}
    return FanOutNetwork(
        rcm_links,
        RcmLinkSettings(fan_out=fan_out, **settings),
        names,
        seed=seed,
        datagram_loss=datagram_loss,
    )


def text(number: int, size: int = SIZE) -> bytes:
    return b"%06d" % number + bytes(size)
