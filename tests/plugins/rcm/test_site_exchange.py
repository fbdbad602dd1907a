"""Lists of sites that are sent beside the order."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import msgpack
import pytest

from broker.errors import ProtocolError
from plugins.rcm.effects import EndLink, SendData
from plugins.rcm.observer import is_marked
from plugins.rcm.site_exchange import MARK, SETTLING, SiteExchange
from plugins.rcm.site_list import SiteList

SITES = SiteList.from_configuration(dict.fromkeys("ab", "tcp:host=h:port=1"))


def make_exchange() -> tuple[SiteExchange, Any]:
    membership = Mock(sites=SITES)
    exchange = SiteExchange(membership)
    return exchange, membership


def test_connected_sites_get_the_list_some_time_after_its_last_change() -> None:
    exchange, _ = make_exchange()
    other, membership = make_exchange()
    for site in "bcd":
        exchange.connect(site, 0.0)
    exchange.disconnect("c", 0.0)
    assert exchange.next_timeout() is None and exchange.handle_timeout(5.0) == []
    exchange.plan(5.0)
    exchange.plan(6.0)
    assert exchange.next_timeout() == 6.0 + SETTLING
    assert exchange.handle_timeout(15.5) == []
    (sent,) = exchange.handle_timeout(16.0)
    assert isinstance(sent, SendData) and sent.sites == ["b", "d"]
    assert exchange.next_timeout() is None
    (packet,) = sent.data
    assert is_marked(packet)
    assert other.receive("a", [packet], 16.0) == []
    membership.learn.assert_called_once_with("a", SITES.records)


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", msgpack.packb([["a"]]), msgpack.packb([["a", "", True, None]] * 65)]
)
def test_a_malformed_list_ends_the_link(data: bytes) -> None:
    exchange, membership = make_exchange()
    (effect,) = exchange.receive("a", [MARK + data], 1.0)
    assert isinstance(effect, EndLink) and isinstance(effect.error, ProtocolError)
    membership.learn.assert_not_called()


def test_a_flood_of_lists_ends_the_link() -> None:
    exchange, membership = make_exchange()
    packet = MARK + msgpack.packb([])
    (effect,) = exchange.receive("a", [packet] * 100, 1.0)
    assert isinstance(effect, EndLink) and "a flood of lists" in effect.error.text
    assert membership.learn.call_count == 64
