from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.address import (
    MAX_DEPTH,
    NETWORK,
    Address,
    child_towards,
    common_prefix,
    enclosing_units,
    is_within,
    parse_unit,
    unit_text,
)
from broker.errors import BadName

names = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True).filter(lambda name: name.isascii())
paths = st.lists(names, max_size=MAX_DEPTH).map(tuple)


@given(paths, names)
def test_an_address_round_trips_as_text(unit: tuple[str, ...], node: str) -> None:
    address = Address(unit, node)
    assert Address.parse(str(address)) == address
    assert parse_unit(unit_text(unit)) == unit


@given(st.text(max_size=200))
def test_any_text_parses_or_raises_bad_name(text: str) -> None:
    try:
        address = Address.parse(text)
    except BadName:
        return
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "n3", "alps", "a/b/c", "alps./n3", ".c1/n3", "alps..c1/n3", "alps.c1/"),
        *("alps.c1/n 3", "alps.c1/n3\n", "alps.c1/\u0661", "x" * 65 + "/n", "c/" + "x" * 65),
        ".".join("a" * (MAX_DEPTH + 1)) + "/n",
    ],
)
def test_malformed_addresses_are_refused(text: str) -> None:
    with pytest.raises(BadName) as caught:
        Address.parse(text)
    assert len(str(caught.value)) < 250


def test_the_network_itself_is_the_empty_path() -> None:
    assert parse_unit("") == NETWORK == ()
    assert Address.parse("/n3") == Address((), "n3")


def test_units_contain_their_descendants() -> None:
    assert is_within(("alps", "c1"), ("alps",))
    assert is_within(("alps",), ("alps",))
    assert is_within(("alps",), NETWORK)
    assert not is_within(("alps",), ("alps", "c1"))
    assert not is_within(("alp",), ("alps",))


@given(paths, paths)
def test_the_common_prefix_is_the_deepest_context_of_both(
    one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    shared = common_prefix(one, other)
    assert shared == max(set(enclosing_units(one)) & set(enclosing_units(other)), key=len)


def test_the_child_towards_a_unit_contains_it() -> None:
    assert child_towards((), ("alps", "c1")) == "alps"
    assert child_towards(("alps",), ("alps", "c1")) == "c1"
    assert list(enclosing_units(("alps", "c1"))) == [("alps", "c1"), ("alps",), ()]


def test_a_long_text_is_cut_in_errors() -> None:
    for length, shown in ((80, "?" * 80), (81, "?" * 80 + "...")):
        with pytest.raises(BadName) as error:
            Address.parse("?" * length)
        assert repr(shown) in str(error.value)
