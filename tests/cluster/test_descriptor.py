from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.address import Address
from broker.cluster.descriptor import Endpoint, MulticastGroup, NodeDescriptor
from broker.cluster.messages import check_value
from broker.errors import ProtocolError
from broker.wire.codec import pack

N1 = NodeDescriptor(
    Address(("alps", "c1"), "n1"),
    "0123456789abcdef",
    7,
    (1, 2),
    tcp=Endpoint("192.0.2.1", 4000),
    udp=Endpoint("2001:db8::1", 4001),
    multicast=MulticastGroup("239.1.2.3", 4002, "eth0"),
    clearance=1,
    draining=True,
    compressions=("zstd", "none"),
    admitted=1_700_000_000_000,
)
BARE = NodeDescriptor(Address((), "n2"), "f" * 16, 0, (1,))
LARGEST = N1._replace(versions=tuple(range(16)), tcp=Endpoint("h" * 255, 65535))

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 1 << 65) | st.text(max_size=5) | st.binary(),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=15,
)


@pytest.mark.parametrize("node", [N1, BARE, LARGEST])
def test_a_descriptor_round_trips_on_the_wire(node: NodeDescriptor) -> None:
    read = msgpack.unpackb(msgpack.packb(node.to_plain()), use_list=False)
    assert NodeDescriptor.from_plain(read) == node
    assert msgpack.packb(node.to_plain()) == pack(node)
    assert check_value(node.to_plain()) == node.to_plain()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(
            (0, bad)
            for bad in (7, "n1", (("a",), ""), ("a", "n"), ((1,), "n"), (("a",),), "x" * 10_000)
        ),
        *((1, bad) for bad in ("", "0123456789ABCDEF", "0" * 17, 5)),
        *((2, bad) for bad in (-1, True, 1.0)),
        *((3, bad) for bad in ((-1,), 1, ("1",), tuple(range(17)))),
        *((4, bad) for bad in (("h",), ("", 1), ("a b", 1), ("h", 0), ("h", 65536), ("h", True))),
        *((5, bad) for bad in (("h" * 256, 1), (1, 1), "ab")),
        *((6, bad) for bad in (("10.0.0.1", 1, ""), ("x", 1, ""), ("239.0.0.1", 1), 5)),
        *((7, bad) for bad in (3, -1, True, "high")),
        *((8, bad) for bad in (1, None)),
        *((9, bad) for bad in (("ZSTD",), ("",), {"a": 1}, ("a",) * 17)),
        *((10, bad) for bad in (-1, None)),
    ],
)
def test_every_field_is_checked(field: int, value: Any) -> None:
    fields = list(N1.to_plain())
    fields[field] = value
    with pytest.raises(ProtocolError) as caught:
        NodeDescriptor.from_plain(fields)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("fields", [N1.to_plain()[:-1], (*N1.to_plain(), 0)])
def test_a_descriptor_has_all_fields(fields: Any) -> None:
    with pytest.raises(ProtocolError):
        NodeDescriptor.from_plain(fields)


@given(plain)
def test_malformed_descriptors_raise_protocol_error(value: Any) -> None:
    with pytest.raises(ProtocolError):
        NodeDescriptor.from_plain(value)


@given(st.integers(0, 10), plain)
def test_arbitrary_fields_raise_only_protocol_error(field: int, value: Any) -> None:
    fields = list(N1.to_plain())
    fields[field] = value
    try:
        NodeDescriptor.from_plain(fields)
    except ProtocolError:
        return
