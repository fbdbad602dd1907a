from __future__ import annotations

import gc
import weakref

import pytest
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress

from broker.node.garbage_collection import GC_THRESHOLDS, configure_garbage_collector
from broker.node.service import format_address


class Knot:
    """It is in a reference cycle."""

    def __init__(self) -> None:
        self.me = self


def test_the_collector_skips_loaded_objects_and_frees_later_ones() -> None:
    thresholds = gc.get_threshold()
    try:
        configure_garbage_collector()
        assert gc.get_threshold() == GC_THRESHOLDS
        assert gc.get_freeze_count() > 10_000
        knot = weakref.ref(Knot())
        assert knot() is not None
        gc.collect()
        assert knot() is None
    finally:
        gc.set_threshold(*thresholds)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (IPv4Address("TCP", "127.0.0.1", 8765), "127.0.0.1:8765"),
        (IPv6Address("TCP", "::1", 8765), "[::1]:8765"),
        (UNIXAddress(b"/run/clients"), "/run/clients"),
    ],
)
def test_an_address_is_formatted_as_text(address: object, text: str) -> None:
    assert format_address(address) == text
