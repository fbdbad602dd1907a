"""A schema and all files that it names are one line of the type's text."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec
import pytest

from broker.dtd.catalogue import Catalogue
from broker.dtd.reference import DtdReference
from broker.dtd.xsd.bundle import (
    MAX_EXPANDED,
    SchemaBundle,
    read_instruction,
    read_schema_files,
    write_instruction,
)
from broker.errors import BadDtd, ConfigurationError
from tests.dtd.xsd.schema_types import (
    FLIGHT_DTD,
    FLIGHT_XSD,
    flight_text,
    load,
    write_files,
    xsd,
)

MAIN = xsd('<xs:include schemaLocation="http://web.example/x/types.xsd"/>')
CHAIN = xsd('\n<xs:import namespace="urn:far" schemaLocation="far.xsd"/>')
FAR = xsd("", ' targetNamespace="urn:far"')


def packed(*files: tuple[str, bytes]) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(files))


def test_a_bundle_has_the_named_files_alone_in_any_order_of_the_given_ones(tmp_path: Path) -> None:
    write_files(tmp_path, main=MAIN, types=CHAIN, far=FAR)
    files = [tmp_path / f"{name}.xsd" for name in ("main", "types", "far")]
    bundle = read_schema_files(files)
    assert bundle.files == (("main.xsd", MAIN), ("far.xsd", FAR), ("types.xsd", CHAIN))
    same = [read_schema_files([files[0], files[2], files[1]]), read_schema_files([tmp_path])]
    assert {each.pack() for each in same} == {bundle.pack()}
    write_files(tmp_path, other=xsd(""))
    assert read_schema_files([files[0], tmp_path]) == bundle
    line = write_instruction(bundle.pack()).decode().rstrip("\n")
    assert SchemaBundle.unpack(read_instruction(line)) == bundle


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["main"], "main.xsd:1: http://web.example/x/types.xsd is not among the given files"),
        (["main", "types"], "types.xsd:2: far.xsd is not among the given files"),
        (["absent"], "absent.xsd can not be read: No such file"),
        (["entity"], "entity.xsd:1: a schema file may have no DOCTYPE"),
        (["torn"], "torn.xsd:2: it is not well-formed"),
        (["other"], "other.xsd:1: it is no XML Schema: its root element is 'html'"),
        ([""], "which schema is the main one? Give its file first: "),
        (["empty/"], "empty has no *.xsd file"),
    ],
)
def test_files_that_are_no_schema_are_named(tmp_path: Path, given: list[str], problem: str) -> None:
    entity = b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]>' + MAIN
    write_files(tmp_path / "empty")
    write_files(tmp_path / "bad", entity=entity, torn=MAIN[:-3], other=b"<html/>")
    write_files(tmp_path / "good", main=MAIN, types=CHAIN, far=FAR, second=MAIN)
    places = {each.stem: each for each in tmp_path.rglob("*.xsd")}
    folders = {"": tmp_path / "good", "empty/": tmp_path / "empty"}
    with pytest.raises(BadDtd) as refused:
        read_schema_files([folders.get(n, places.get(n, tmp_path / f"{n}.xsd")) for n in given])
    assert problem in refused.value.text


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"no zlib",
        packed(("a.xsd", MAIN))[:-1],
        packed(("a.xsd", MAIN)) + b"x",
        zlib.compress(b"x"),
        packed(),
        packed(("a.xsd", MAIN), ("a.xsd", MAIN)),
        packed(("/etc/passwd", MAIN)),
        packed(("../a.xsd", MAIN)),
        packed(("a.xsd", b" " * (MAX_EXPANDED + 1))),
        packed(("a.xsd", b" " * (64 * MAX_EXPANDED))),
        packed(*((f"{number}.xsd", b"") for number in range(201))),
    ],
)
def test_a_damaged_bundle_is_refused_within_its_bounds(damaged: bytes) -> None:
    with pytest.raises(BadDtd):
        SchemaBundle.unpack(damaged)
    with pytest.raises(BadDtd):
        load(FLIGHT_DTD.encode() + write_instruction(damaged))


def test_a_schema_that_is_too_large_is_refused_when_it_is_packed() -> None:
    with pytest.raises(BadDtd, match="more than 4,194,304"):
        SchemaBundle((("a.xsd", b" " * (MAX_EXPANDED + 1)),)).pack()


def test_the_text_of_a_type_has_its_schema_in_a_canonical_place() -> None:
    text = flight_text()
    declarations, line = text.rsplit(b"<?", 1)
    canonical = load(text).text
    assert load(b"<?" + line + declarations).text == canonical == load(canonical).text
    assert canonical.endswith(b"?>\n") and canonical.count(b"<?") == 1
    without = load(FLIGHT_DTD.encode())
    assert canonical.startswith(without.text) and without.schema is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"<?payload-schema 2 AAAA?>", "a later version of xmlbroker"),
        (b"<?payload-schema 1 AB==?>", "not base64"),
        (b"<?payload-schema 1?>", "not base64"),
        (b"<?payload-schema", "not closed"),
        (2 * write_instruction(SchemaBundle((("a.xsd", xsd(FLIGHT_XSD)),)).pack()), "only one"),
    ],
)
def test_a_malformed_line_is_refused_with_its_place(line: bytes, problem: str) -> None:
    with pytest.raises(BadDtd, match=problem) as refused:
        load(FLIGHT_DTD.encode() + b"\n" + line)
    assert refused.value.line > FLIGHT_DTD.count("\n")


def test_a_folder_of_types_may_have_a_schema_beside_a_dtd(tmp_path: Path) -> None:
    flight = DtdReference("flight", "9.0")
    (tmp_path / "flight-9.0.dtd").write_text(FLIGHT_DTD)
    (tmp_path / "catalog.xml").write_text(
        '<catalog xmlns="urn:oasis:names:tc:entity:xmlns:xml:catalog">'
        f'<public publicId="{flight.public_id}" uri="flight-9.0.dtd"/></catalog>'
    )
    included = xsd(FLIGHT_XSD)
    main = xsd('<xs:include schemaLocation="parts.xsd"/>')
    (tmp_path / "flight-9.0.xsd").write_bytes(main)
    catalogue = Catalogue.load(tmp_path)
    with pytest.raises(ConfigurationError, match=r"parts\.xsd is not among the given files"):
        catalogue.read(flight.public_id, "")
    (tmp_path / "parts.xsd").write_bytes(included)
    text = catalogue.read(flight.public_id, "")
    assert text is not None
    assert text.endswith(
        write_instruction(SchemaBundle((("flight-9.0.xsd", main), ("parts.xsd", included))).pack())
    )
    assert load(text).schema is not None
