"""Events with order entries."""

from __future__ import annotations

from broker.event.order_entry import OrderEntry, encode_order_entry
from broker.streams.contract import CarriedEvent
from tests.plugins.rcm.certificates.test_site_certificates import make_event as make_stamped


def make_event(
    number: int, site: str = "a", incarnation: int = 1, *, stack: str = "g"
) -> CarriedEvent:
    """Return an event whose offset in its flow is its number."""
    entry = OrderEntry(stack, site, incarnation, number, number, "logical")
    return make_stamped(number, number, site).with_annotation(encode_order_entry(entry))
