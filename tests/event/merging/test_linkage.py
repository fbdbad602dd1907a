from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import BadEnvelope, NotWellFormed
from broker.event.envelope import Bundle, EventLinkage, EventType, Order
from broker.event.event_id import EventId
from broker.event.merging.linkage import read_linkage
from broker.event.reader import read_event
from broker.event.writer import write_event

NAMES = st.text(alphabet="ab <&>\"'é-", max_size=12)
ORDERS = st.builds(Order, NAMES, st.booleans())
LINKAGES = st.builds(
    EventLinkage,
    bundles=st.lists(st.builds(Bundle, NAMES, st.integers(0, 2**62)), max_size=3).map(tuple),
    time_constraint=st.none() | NAMES.filter(bool),
    merge_scheme=st.none() | NAMES.filter(bool),
    order=st.lists(ORDERS, min_size=1, max_size=3).map(tuple),
)


def document(linkage: EventLinkage) -> bytes:
    return write_event(EventId("c", 1, 1, 1), "s", EventType("t", "1.0"), b"<a/>", linkage=linkage)


@given(LINKAGES)
def test_the_linkage_equals_that_of_the_whole_event(linkage: EventLinkage) -> None:
    assert read_linkage(document(linkage)) == read_event(document(linkage)).linkage == linkage


FALSE = b"<Mspaces:EventLinkage><Mspaces:BundleLinkage/></Mspaces:EventLinkage>"


@pytest.mark.parametrize("hidden", [b"<!--%s-->", b"<?x %s?>"])
def test_a_linkage_in_other_markup_is_ignored(hidden: bytes) -> None:
    true = EventLinkage(time_constraint="within 1s", order=(Order("s"),))
    before = document(true).replace(b"<Mspaces:EventType", (hidden % FALSE) + b"<Mspaces:EventType")
    assert read_linkage(before) == true
    pointer = document(true).replace(b"https://", FALSE)
    assert read_linkage(pointer) == true
    inside = document(true).replace(b"<Mspaces:BundleOrder>", b"<!-- x --><Mspaces:BundleOrder>")
    assert read_linkage(inside) == true


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"<a/>",
        document(EventLinkage()).replace(b"<Mspaces:BundleOrder>", b"<Mspaces:BundleOrder"),
        document(EventLinkage()).replace(b"<Mspaces:BundleLinkage/>", b""),
        document(EventLinkage(bundles=(Bundle("b", 7),))).replace(b">7<", b">x<"),
    ],
)
def test_another_document_is_a_typed_error(broken: bytes) -> None:
    with pytest.raises((NotWellFormed, BadEnvelope)):
        read_linkage(broken)
