from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from lxml import etree
from zope.interface import implementedBy

from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.derivation.schema_files import load_schema
from broker.dtd.derivation.schema_translation import find_roots, translate_schema
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from tests.dtd.derivation.sample_documents import find_problem
from tests.dtd.derivation.schema_documents import DocumentMaker

SCHEMAS = Path(__file__).parent / "schemas"
REFERENCE = DtdReference("sample", "1.0")


def translate(files: list[Path], *roots: str) -> tuple[Dtd, Any]:
    schema, _ = load_schema([file.resolve() for file in files])
    _, written = translate_schema(schema, find_roots(schema, roots), REFERENCE)
    text = written.text.encode()
    return Dtd.load(REFERENCE, text, Catalogue.load(shipped_folder()).read), schema


def check_documents(dtd: Dtd, schema: Any, root: str, oracle: etree.XMLSchema, count: int) -> None:
    """Check that the DTD accepts random documents that libxml2's schema accepts."""
    valid = 0
    (element,) = find_roots(schema, [root])
    for seed in range(count):
        document = DocumentMaker(schema, Random(seed)).make(element)
        if not oracle.validate(document):
            continue
        valid += 1
        problem = find_problem(dtd, document)
        assert problem is None, (seed, problem, etree.tostring(document))
    assert valid > 0.9 * count, str(oracle.error_log)


@pytest.mark.parametrize(
    ("names", "root"),
    [
        (["siri-style.xsd", "siri-style-common.xsd"], "Delivery"),
        (["tfms-style.xsd", "tfms-style-flight.xsd"], "service"),
    ],
)
def test_the_dtd_accepts_all_documents_of_a_schema(
    names: list[str], root: str, tmp_path: Path
) -> None:
    for name in names:
        shutil.copy(SCHEMAS / name, tmp_path / name)
    main = tmp_path / names[0]
    main.write_text(main.read_text().replace("http://made-up.example/flight.xsd", names[1]))
    oracle = etree.XMLSchema(etree.parse(main))
    dtd, schema = translate([SCHEMAS / name for name in names], root)
    check_documents(dtd, schema, root, oracle, 50)


@pytest.mark.parametrize(
    ("file", "root"),
    [
        ("cap-google/cap10.xsd", "alert"),
        ("cap-google/cap11.xsd", "alert"),
        ("cap-google/cap12.xsd", "alert"),
        ("voevent/VOEvent-v2.0.xsd", "VOEvent"),
    ],
)
def test_the_dtd_accepts_all_documents_of_a_public_schema(
    file: str, root: str, shared_data: Path
) -> None:
    path = shared_data / file
    dtd, schema = translate([path], root)
    check_documents(dtd, schema, root, etree.XMLSchema(etree.parse(path)), 20)


HEAD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'


def of_type(content: str) -> str:
    return f'{HEAD}<xs:element name="a"><xs:complexType>{content}</xs:complexType></xs:element>'


def translate_text(text: str, folder: Path, *roots: str) -> tuple[Dtd, dict[str, str]]:
    """Return the DTD, and the models of its elements without white space."""
    file = folder / "s.xsd"
    file.write_text(f"{text}</xs:schema>")
    dtd, _ = translate([file], *roots)
    lines = [line.split(" ", 2) for line in dtd.text.decode().splitlines()]
    return dtd, {words[1]: words[2][:-1] for words in lines if words[0] == "<!ELEMENT"}


def element(name: str, type_: str = "string", **attributes: str) -> str:
    more = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f'<xs:element name="{name}" type="xs:{type_}"{more}/>'


@pytest.mark.parametrize(
    ("content", "model"),
    [
        ("", "(#PCDATA)"),
        (f"<xs:sequence>{element('b')}{element('c', minOccurs='0')}</xs:sequence>", "(b,c?)"),
        (
            f"<xs:sequence>{element('b', minOccurs='2', maxOccurs='5')}"
            f"{element('c', minOccurs='0', maxOccurs='0')}"
            f"{element('d', minOccurs='0', maxOccurs='7')}"
            "</xs:sequence>",
            "(b+,d*)",
        ),
        (f"<xs:choice minOccurs='0'>{element('b')}{element('c')}</xs:choice>", "(b|c)?"),
        (f"<xs:all>{element('b')}{element('c', minOccurs='0')}</xs:all>", "(b|c)+"),
        (f"<xs:all>{element('b', minOccurs='0')}</xs:all>", "(b)*"),
        # A choice of nothing makes the others optional.
        (f"<xs:choice>{element('b')}<xs:sequence/></xs:choice>", "(b?)"),
        # Deterministic with numbers, not without.
        (
            f"<xs:sequence>{element('b', minOccurs='2', maxOccurs='2')}{element('b')}"
            f"{element('c')}</xs:sequence>",
            "(b+,c)",
        ),
        (
            "<xs:sequence>"
            f"<xs:sequence minOccurs='0' maxOccurs='2'>{element('b')}{element('c')}</xs:sequence>"
            f"{element('d')}</xs:sequence>",
            "((b,c)*,d)",
        ),
        # A wildcard of declared elements, and of none.
        (f"<xs:sequence>{element('b')}<xs:any minOccurs='0'/></xs:sequence>", "(b,a?)"),
        (
            f"<xs:sequence>{element('b')}<xs:any namespace='urn:other'/></xs:sequence>",
            "(b)",
        ),
        (
            "<xs:complexContent><xs:extension base='xs:anyType'/></xs:complexContent>",
            "(#PCDATA|a)*",
        ),
    ],
)
def test_content_is_translated(content: str, model: str, tmp_path: Path) -> None:
    _, models = translate_text(of_type(content), tmp_path)
    assert models["a"] == model


def test_an_element_of_any_type_has_any_content(tmp_path: Path) -> None:
    assert translate_text(f'{HEAD}<xs:element name="a"/>', tmp_path)[1]["a"] == "ANY"


def test_a_nillable_element_may_be_empty(tmp_path: Path) -> None:
    text = (
        f'{HEAD}<xs:element name="a" nillable="true"><xs:complexType><xs:sequence>'
        f"{element('b')}</xs:sequence></xs:complexType></xs:element>"
    )
    assert translate_text(text, tmp_path)[1]["a"] == "(b?)"


def test_names_with_several_types_are_joined(tmp_path: Path) -> None:
    text = (
        f'{HEAD}<xs:element name="a"><xs:complexType><xs:sequence>'
        '<xs:element name="m" type="Base"/><xs:element name="n"><xs:complexType><xs:sequence>'
        f"{element('m')}</xs:sequence></xs:complexType></xs:element>"
        "</xs:sequence></xs:complexType></xs:element>"
        f'<xs:complexType name="Base"><xs:sequence>{element("b")}</xs:sequence>'
        '<xs:attribute name="x" use="required"/><xs:attribute name="y" default="1"/>'
        "</xs:complexType>"
        '<xs:complexType name="More"><xs:complexContent><xs:extension base="Base"><xs:sequence>'
        f'{element("c")}</xs:sequence><xs:attribute name="z" use="required"/></xs:extension>'
        "</xs:complexContent></xs:complexType>"
    )
    dtd, models = translate_text(text, tmp_path)
    assert models["m"] == "(#PCDATA|b|c)*"
    # One type has no attributes.
    own = [each for each in dtd.elements["m"].attributes if each.prefix is None]
    assert {(each.name, each.required, each.default) for each in own} == {
        *(("x", False, None), ("y", False, None), ("z", False, None))
    }
    text = text.replace('name="n">', 'name="o">').replace(element("m"), element("p"))
    dtd, models = translate_text(text, tmp_path)
    assert models["m"] == "(b,c?)"
    own = [each for each in dtd.elements["m"].attributes if each.prefix is None]
    assert {(each.name, each.required, each.default) for each in own} == {
        *(("x", True, None), ("y", False, "1"), ("z", False, None))
    }


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ('type="xs:string" use="required"', (True, False, None)),
        ('type="xs:int" use="optional"', (False, False, None)),
        ('type="xs:int" default="1"', (False, False, "1")),
        ('type="xs:string" fixed="it"', (False, True, "it")),
        ('type="xs:string" fixed="it\'s &quot;"', (False, True, "it's \"")),
        # libxml2 compares such values escaped with unescaped.
        ('type="xs:string" fixed="&lt;a> &amp; b"', (False, False, "<a> & b")),
        # " 01 " is equal to it, so the DTD does not fix it.
        ('type="xs:int" fixed="1"', (False, False, "1")),
        ('type="xs:int" fixed="1" use="required"', (True, False, None)),
    ],
)
def test_attributes_are_translated(
    attribute: str, expected: tuple[bool, bool, str | None], tmp_path: Path
) -> None:
    dtd, _ = translate_text(of_type(f'<xs:attribute name="x" {attribute}/>'), tmp_path)
    (found,) = [each for each in dtd.elements["a"].attributes if each.name == "x"]
    assert (found.required, found.fixed, found.default) == expected
    assert found.type == "cdata"
    value = expected[2] or ""
    assert find_problem(dtd, etree.Element("a", x=value)) is None


def test_a_large_wildcard_is_left_out(tmp_path: Path) -> None:
    globals_ = "".join(element(f"g{number}") for number in range(4_001))
    text = of_type(f"<xs:sequence>{element('b')}<xs:any/></xs:sequence>") + globals_
    assert translate_text(text, tmp_path, "a")[1].keys() >= {"a", "b"}


def test_a_large_schema_keeps_as_much_as_a_node_accepts(tmp_path: Path) -> None:
    names = ["n" * 150 + str(number) for number in range(900)]
    body = "".join(element(name) for name in names)
    text = of_type(f"<xs:sequence>{element('b')}<xs:element ref='c'/></xs:sequence>")
    text += (
        f"<xs:element name='c'><xs:complexType><xs:sequence>{body}</xs:sequence></xs:complexType>"
        "</xs:element>"
    )
    dtd, models = translate_text(text, tmp_path, "a")
    assert len(dtd.text) <= 256 * 1024
    assert models["a"] == "(b,c)"
    # The longest model is the first to go.
    assert models["c"] == "ANY"
    assert {models[name] for name in names} == {"(#PCDATA)"}
    own = [each.qualified_name for each in dtd.elements[names[0]].attributes]
    assert own == []


def test_the_namespace_of_the_root_has_no_prefix_if_all_names_have_one() -> None:
    dtd, _ = translate([SCHEMAS / "siri-style.xsd", SCHEMAS / "siri-style-common.xsd"], "Delivery")
    assert "Vehicle" in dtd.elements
    assert dtd.declared_names.namespaces[""] == "urn:made-up:transit"
    dtd, _ = translate([SCHEMAS / "tfms-style.xsd", SCHEMAS / "tfms-style-flight.xsd"], "service")
    assert {"ds:service", "fd:message", "message"} <= dtd.elements.keys()


def test_a_schema_is_read_where_zope_has_examined_collections(tmp_path: Path) -> None:
    implementedBy(Sequence)
    assert "__provides__" in Sequence.__dict__
    assert translate_text(of_type(""), tmp_path)[1]["a"] == "(#PCDATA)"


def test_version_1_1_is_read(tmp_path: Path) -> None:
    text = of_type(
        f"<xs:openContent><xs:any/></xs:openContent><xs:sequence>{element('b')}</xs:sequence>"
        '<xs:assert test="b"/>'
    )
    assert translate_text(text, tmp_path)[1]["a"] == "ANY"
