from __future__ import annotations

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster import messages
from broker.cluster.address import Address
from broker.cluster.messages import (
    CHANGED,
    MAX_CONTROL,
    MAX_NAME,
    MAX_NESTING,
    REMOVED,
    REPLACED,
    Digest,
    Message,
    Probe,
    Proof,
    Refresh,
    Update,
)
from broker.cluster.traffic.messages import PageRequest
from broker.errors import ProtocolError

CLUSTER = ("alps", "c1")
CHANGES = (
    ("profile", "n1", CHANGED, (("k", ("asdi.>", "//a", (("x", "urn:x"),))), ("old", None))),
    ("node", "n1", REPLACED, (("a", 1), ("b", b"\x00"), ("c", True), ("d", 1.5), ("e", -7))),
    ("flowing", "alps.c1", REMOVED, ()),
)
EXAMPLES: list[Message] = [
    Digest((("n1", CLUSTER, 7, 3), ("n2", (), 1, 0)), True, False),
    Update("n1", CLUSTER, ("alps",), 7, 2, 5, 1234, CHANGES, True),
    Refresh("n1", CLUSTER, CLUSTER, 7, 5, 40, 1500),
    Probe("n1", CLUSTER, 7, 5, 9),
    Proof("n1", CLUSTER, 7, 9, True, (("origin", 1, 400), ("other", 2, 0))),
]

NODES = st.text("abcXYZ019_-", min_size=1, max_size=64)
UNITS = st.lists(NODES, max_size=8).map(tuple)
COUNTS = st.integers(0, (1 << 64) - 1)
CUTS = st.tuples(st.text(max_size=9), st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 63) - 1))
PLAIN = (
    st.text(max_size=20)
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.binary(max_size=20)
    | st.booleans()
    | st.floats(allow_nan=False)
)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner | st.none(), max_size=3).map(tuple))
ENTRIES = st.lists(st.tuples(st.text(max_size=9), st.none() | VALUES), max_size=4).map(tuple)
TABLES = st.tuples(
    st.text(max_size=9), st.text(max_size=9), st.sampled_from([CHANGED, REPLACED]), ENTRIES
) | st.tuples(st.text(max_size=9), st.text(max_size=9), st.just(REMOVED), st.just(()))
MESSAGES = st.one_of(
    st.builds(
        Digest,
        st.lists(st.tuples(NODES, UNITS, COUNTS, COUNTS), max_size=5).map(tuple),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(
        Update,
        *(NODES, UNITS, UNITS, COUNTS, COUNTS, COUNTS, COUNTS),
        st.lists(TABLES, max_size=4).map(tuple),
        st.booleans(),
    ),
    st.builds(Refresh, NODES, UNITS, UNITS, COUNTS, COUNTS, COUNTS, COUNTS),
    st.builds(Probe, NODES, UNITS, COUNTS, COUNTS, COUNTS),
    st.builds(
        Proof,
        *(NODES, UNITS, COUNTS, COUNTS, st.booleans()),
        st.lists(CUTS, max_size=4).map(tuple),
    ),
)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_round_trips_on_the_wire(message: Message) -> None:
    assert messages.decode(messages.encode(message)) == message


@given(MESSAGES)
def test_any_message_round_trips_on_the_wire(message: Message) -> None:
    assert messages.decode(messages.encode(message)) == message


@given(st.binary(max_size=200))
def test_random_bytes_decode_or_raise_protocol_error(data: bytes) -> None:
    try:
        assert isinstance(messages.decode(data), Message)
    except ProtocolError as error:
        assert str(error)


@given(MESSAGES, st.data())
def test_a_changed_byte_decodes_or_raises_protocol_error(
    message: Message, data: st.DataObject
) -> None:
    encoded = bytearray(messages.encode(message))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(messages.decode(bytes(encoded)), Message)
    except ProtocolError as error:
        assert str(error)


_OTHERS = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.just(msgpack.ExtType(1, b"x")),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
).filter(lambda value: not isinstance(value, int) or -(1 << 63) <= value < 1 << 64)


@given(st.sampled_from(range(0x50, 0x55)), st.lists(_OTHERS, max_size=9))
def test_arrays_of_wrong_types_raise_protocol_error(kind: int, values: list[object]) -> None:
    try:
        data = bytes([kind]) + msgpack.packb(values)
    except (OverflowError, ValueError):
        return
    try:
        assert isinstance(messages.decode(data), Message)
    except ProtocolError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("example", "field", "value"),
    [
        (1, 0, "a name with blanks"),
        (1, 1, ("alps", "")),
        (1, 1, ("a",) * 9),
        (1, 3, -1),
        (1, 3, True),
        (1, 7, (("kind", "s", 3, ()),)),
        (1, 7, (("kind", "s", REMOVED, (("a", 1),)),)),
        (1, 7, (("kind", "s" * (MAX_NAME + 1), CHANGED, ()),)),
        (1, 7, (("kind", "s", CHANGED, (("a", {"b": 1}),)),)),
        (0, 1, 1),
        (4, 5, (("o", 1),)),
    ],
)
def test_an_invalid_field_is_refused(example: int, field: int, value: object) -> None:
    message = EXAMPLES[example]
    values = list(msgspec.structs.astuple(message))
    values[field] = value
    with pytest.raises(ProtocolError, match=f"malformed {type(message).__name__}"):
        messages.decode(bytes([message.kind]) + msgpack.packb(values))


def test_a_value_nested_too_deep_is_refused() -> None:
    deep: object = 1
    for _ in range(MAX_NESTING + 1):
        deep = (deep,)
    with pytest.raises(ValueError, match="nested too deep"):
        Update("n", (), (), 1, 0, 1, 0, (("k", "s", REPLACED, (("a", deep),)),), False)  # type: ignore[arg-type]


def test_an_oversized_message_is_refused_undecoded() -> None:
    with pytest.raises(ProtocolError, match="Update of 1048577 bytes"):
        messages.decode(b"\x51" + bytes(MAX_CONTROL))


def test_a_link_of_version_1_gets_a_page_request_without_its_history() -> None:
    """Version 1 decodes exactly six fields."""
    here, there = Address(CLUSTER, "n1"), Address(CLUSTER, "n2")
    resume = PageRequest(there, here, 9, "origin", (1, 2), True, ((1, 77, (0, 1)),))
    assert messages.decode(messages.encode(resume)) == resume
    older = messages.encode(resume.at_version(1))
    assert len(msgpack.unpackb(older[1:])) == 6
    assert messages.decode(older) == msgspec.structs.replace(resume, path=())


def test_only_links_of_version_3_carry_the_request_for_less_than_all_events() -> None:
    here, there = Address(CLUSTER, "n1"), Address(CLUSTER, "n2")
    history = ((1, 77, (0, 1)),)
    for path in ((), history):
        request = PageRequest(there, here, 9, "origin", (1, 2), False, path, True)
        assert messages.decode(messages.encode(request.at_version(3))) == request
        older = request.at_version(2)
        assert older == PageRequest(there, here, 9, "origin", (1, 2), False, path)
        assert len(msgpack.unpackb(messages.encode(older)[1:])) == (7 if path else 6)
