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


def link_sites(fan_out: str, *names: str, suspect: float = 15.0, **others: Any) -> FanOutNetwork:
    options = RcmLinkSettings(
        fan_out=fan_out, suspect=suspect, group="239.1.2.3:9000", group_interface="lo"
    )
    return FanOutNetwork(rcm_links, options, names, **others)


def text(number: int, size: int = SIZE) -> bytes:
    return b"%06d" % number + bytes(size)
