"""DTDs that the command line writes, at a running node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capability import SHARED_DATA
from tests.system.node_process import NodeProcess
from tests.system.test_cli import run_command

pytestmark = pytest.mark.system

MADE_UP = """<n:Feed xmlns:n="urn:made-up:feed" xmlns="urn:made-up:feed" at="{0}">
<Track id="t{0}"><Speed uom="kt">{0}</Speed><!-- {0} --></Track>
</n:Feed>"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node") as running:
        yield running
        assert "Traceback" not in running.log()


def test_a_type_inferred_from_the_quarantine_is_added_and_its_samples_are_published(
    node: NodeProcess, tmp_path: Path
) -> None:
    made_up = tmp_path / "made-up.xml"
    made_up.write_text("".join(map(MADE_UP.format, range(20))))
    folder = SHARED_DATA / "faa-swim-race"
    real = sorted(folder.glob("*.xml")) if folder.is_dir() else []
    for number, samples in enumerate((made_up, *real)):
        name = f"feed{number}"
        out, err = run_command(node, "pub", str(samples), "--type", name, "1.0", status=1)
        found = json.loads(out)["found"]
        assert json.loads(out)["refused"] == found > 0
        assert f"no DTD for {name} 1.0" in err
        options = ("--type", name, "--version", "1.0")
        quarantine = str(node.data / "quarantine")
        dtd, report = run_command(node, "dtd", "infer", quarantine, *options)
        assert f"inferred from {found} sample" in report
        file = tmp_path / f"{name}.dtd"
        file.write_text(dtd)
        assert "is registered" in run_command(node, "dtd", "add", str(file))[1]
        out, _ = run_command(node, "pub", str(samples), "--type", name, "1.0")
        assert json.loads(out)["durable"] == found


SCHEMA = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"
    targetNamespace="urn:made-up:feed" xmlns:f="urn:made-up:feed" elementFormDefault="qualified">
<xs:element name="Feed"><xs:complexType><xs:sequence>
<xs:element name="Track" type="f:Track" maxOccurs="9"/></xs:sequence>
<xs:attribute name="at" type="xs:int"/></xs:complexType></xs:element>
<xs:complexType name="Track"><xs:sequence><xs:element name="Speed">
<xs:complexType><xs:simpleContent>
<xs:extension base="xs:int"><xs:attribute name="uom"/></xs:extension></xs:simpleContent>
</xs:complexType></xs:element></xs:sequence><xs:attribute name="id" type="xs:ID"/></xs:complexType>
</xs:schema>"""


def test_an_imported_type_is_added_and_queries_see_its_events(
    node: NodeProcess, tmp_path: Path
) -> None:
    samples, schema, dtd = (tmp_path / name for name in ("feed.xml", "feed.xsd", "feed.dtd"))
    samples.write_text("".join(map(MADE_UP.format, range(20))))
    schema.write_text(SCHEMA)
    options = ("--type", "feed", "--version", "1.0")
    dtd.write_text(run_command(node, "dtd", "import", str(schema), *options)[0])
    run_command(node, "dtd", "add", str(dtd))
    out, _ = run_command(node, "pub", str(samples), "--type", "feed", "1.0")
    assert json.loads(out)["durable"] == 20
    query = "//x:Track[x:Speed >= 15]", "--namespace", "x=urn:made-up:feed"
    out, err = run_command(node, "sub", *query, "--from", "all", "--idle", "1")
    assert (len(out.splitlines()), err) == (5, "5 events\n")
