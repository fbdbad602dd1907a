from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.fake_node import FakeNode, run

TYPE = ("--type", "sample", "--version", "1.0")
HEAD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"'
SCHEMA = f'{HEAD}><xs:element name="a" type="xs:int"/></xs:schema>'
IMPORT = '<xs:import namespace="urn:o" schemaLocation="http://made-up.example/schemas/o.xsd"/>'
USE = (
    '<xs:element name="a"><xs:complexType><xs:sequence><xs:element ref="o:b" xmlns:o="urn:o"/>'
    "</xs:sequence></xs:complexType></xs:element></xs:schema>"
)
OTHER = f'{HEAD} targetNamespace="urn:o"><xs:element name="b" type="xs:int"/></xs:schema>'


def import_(*arguments: str | Path) -> Result:
    return run(FakeNode(), "dtd", "import", *map(str, arguments))


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network is used")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_a_folder_of_schemas_is_imported_and_its_documents_are_valid(tmp_path: Path) -> None:
    schemas = tmp_path / "schemas"
    (schemas / "inner").mkdir(parents=True)
    (schemas / "main.xsd").write_text(f"{HEAD}>{IMPORT}{USE}")
    # The import names a place on the web.
    (schemas / "inner" / "o.xsd").write_text(OTHER)
    result = import_(schemas, "--root", "a", *TYPE)
    assert result.exit_code == 0, result.output
    assert "<!ELEMENT a (o:b)>" in result.stdout
    assert "it has no types of texts and attributes" in result.stderr
    dtd = tmp_path / "sample-1.0.dtd"
    dtd.write_text(result.stdout)
    document = tmp_path / "document.xml"
    document.write_text('<a><p:b xmlns:p="urn:o">not a number</p:b></a><a/>')
    checked = run(FakeNode(), "dtd", "check", str(dtd), str(document))
    assert "1 of 2 events are valid" in checked.stderr


def test_only_given_files_are_read(tmp_path: Path) -> None:
    main = tmp_path / "main.xsd"
    main.write_text(f"{HEAD}>{IMPORT}{USE}")
    (tmp_path / "o.xsd").write_text(OTHER)
    result = import_(main, *TYPE)
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr == (
        "xmlbroker: the schema can not be read: unknown element '{urn:o}b'; "
        "not among the given files: http://made-up.example/schemas/o.xsd\n"
    )
    main.write_text(SCHEMA.replace("<xs:element", f"{IMPORT}<xs:element"))
    result = import_(main, *TYPE)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: http://made-up.example/schemas/o.xsd is not among")


def nested(depth: int) -> str:
    inner = "<xs:sequence>" * depth + "<xs:element name='b'/>" + "</xs:sequence>" * depth
    return f'{HEAD}><xs:element name="a"><xs:complexType>{inner}</xs:complexType></xs:element>'


BOMB = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 1000 if n else "x" * 1000}">' for n in range(4))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not well-formed: no element found"),
        ("<a/>", "is not an XML Schema: its root element is 'a'"),
        (f"<!DOCTYPE x [{BOMB}]><a>&e3;</a>", "limit on input amplification factor"),
        ('<!DOCTYPE x [<!ENTITY e SYSTEM "s.xsd">]><a>&e;</a>', "undefined entity &e;"),
        (SCHEMA.replace("xs:int", "none"), "unknown type 'none'"),
        (f"{nested(500)}</xs:schema>", "nested too deep"),
        (f"{nested(5_000)}</xs:schema>", "maximum XML depth"),
        (f"{HEAD}/>", "the schema has no global element"),
        (SCHEMA.replace('name="a"', 'name="a" abstract="true"'), "element 'a' is abstract"),
        (
            SCHEMA.replace("</xs:s", '<xs:element name="b"/></xs:s'),
            "the schema has several roots: give --root, one of a, b",
        ),
        (
            f'{HEAD}><xs:element name="a"><xs:complexType>'
            + "".join(f'<xs:attribute name="b{number}"/>' for number in range(256))
            + "</xs:complexType></xs:element></xs:schema>",
            "element 'a' needs more than 256 attributes",
        ),
    ],
)
def test_an_unusable_schema_is_a_clear_error(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "s.xsd"
    file.write_text(text)
    result = import_(file, *TYPE)
    assert result.exit_code == 1 and result.stdout == ""
    assert problem in result.stderr and "Traceback" not in result.output
    assert result.stderr.startswith("xmlbroker: ") and result.stderr.count("\n") == 1


def test_a_root_is_found_by_its_name(tmp_path: Path) -> None:
    for number in (1, 2):
        text = OTHER.replace("urn:o", f"urn:{number}")
        (tmp_path / f"{number}.xsd").write_text(text)
    assert (
        "no global element 'x': it has {urn:1}b, {urn:2}b"
        in import_(tmp_path, "--root", "x", *TYPE).stderr
    )
    assert (
        "several elements are named 'b': give --root {urn:1}b or {urn:2}b"
        in import_(tmp_path, "--root", "b", *TYPE).stderr
    )
    result = import_(tmp_path, "--root", "{urn:1}b", "--root", "{urn:2}b", *TYPE)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("<!ELEMENT ns") + result.stdout.count("<!ELEMENT urn") == 2


def test_of_alternative_schemas_the_first_with_the_root_is_read(tmp_path: Path) -> None:
    (tmp_path / "1.xsd").write_text(f"{HEAD}>{IMPORT}{USE}")
    (tmp_path / "2.xsd").write_text(SCHEMA)
    (tmp_path / "o.xsd").write_text(OTHER)
    result = import_(tmp_path, "--root", "a", *TYPE)
    assert result.exit_code == 0, result.output
    assert "<!ELEMENT a (o:b)>" in result.stdout
    assert result.stderr.startswith(
        "warning: only 1.xsd and files that it names are read: the schema can not be read: "
        "global xs:element with name='a' is already loaded"
    )
    assert import_(tmp_path / "2.xsd", tmp_path, "--root", "a", *TYPE).stdout.count("(o:b)") == 0


def test_missing_files_are_a_clear_error(tmp_path: Path) -> None:
    assert "s.xsd can not be read: No such file" in import_(tmp_path / "s.xsd", *TYPE).stderr
    assert import_(tmp_path, *TYPE).stderr == "xmlbroker: there is no *.xsd file\n"
    assert import_(*TYPE).exit_code == 2


def test_other_commands_do_not_load_the_library() -> None:
    script = "import sys, broker.cli.dtd; sys.exit('xmlschema' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
