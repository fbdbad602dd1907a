from __future__ import annotations

import pytest

from broker.dtd.reference import DtdReference
from broker.errors import BadName


def test_a_reference_is_written_as_public_and_system_identifier() -> None:
    reference = DtdReference("flight", "1.0")
    assert reference.public_id == "-//xmlbroker//DTD flight 1.0//EN"
    assert reference.system_id == "https://xmlbroker.example/dtd/flight-1.0.dtd"
    assert str(reference) == "flight 1.0"


def test_a_public_identifier_is_read_back() -> None:
    for reference in (DtdReference("VOEvent", "2.0"), DtdReference("a-b_c.d", "10.0.3.999999")):
        assert DtdReference.from_public_id(reference.public_id) == reference


def test_white_space_in_a_public_identifier_is_normalised() -> None:
    text = " -//xmlbroker//DTD\n  flight\t1.0//EN "
    assert DtdReference.from_public_id(text) == DtdReference("flight", "1.0")


@pytest.mark.parametrize(
    "public_id",
    [
        "",
        "-//xmlbroker//DTD flight//EN",
        "-//xmlbroker//DTD flight 1.0//DE",
        "-//xmlbroker//ELEMENTS Mspaces Envelope 1.0//EN",
        "-//W3C//DTD XHTML 1.0//EN",
        "-//xmlbroker//DTD ../flight 1.0//EN",
        "-//xmlbroker//DTD flight 1.0//EN extra",
        "-//xmlbroker//DTD flight ../1//EN",
    ],
)
def test_another_public_identifier_names_no_event_type(public_id: str) -> None:
    with pytest.raises(BadName):
        DtdReference.from_public_id(public_id)


@pytest.mark.parametrize("name", ["", "1flight", "a b", "a/b", "é", "a" * 65, "flight\n"])
def test_a_type_outside_the_grammar_is_refused(name: str) -> None:
    with pytest.raises(BadName):
        DtdReference(name, "1.0")


@pytest.mark.parametrize(
    "version", ["", ".", "1.", ".1", "1..0", "v1", "01.0", "1.0.0.0.0", "1.0\n"]
)
def test_a_version_outside_the_grammar_is_refused(version: str) -> None:
    with pytest.raises(BadName):
        DtdReference("flight", version)


def test_versions_sort_by_number_and_types_by_name() -> None:
    spelt = [("b", "1.0"), ("a", "1.10"), ("a", "1.9"), ("a", "2"), ("a", "1.9.1")]
    ordered = sorted(DtdReference(*each) for each in spelt)
    assert [str(each) for each in ordered] == ["a 1.9", "a 1.9.1", "a 1.10", "a 2", "b 1.0"]
