from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

import pytest
from click.testing import Result

from broker.event.envelope import EventType
from broker.event.event_id import EventId
from broker.event.writer import write_event
from tests.cli.fake_node import FakeNode, run

TYPE = ("--type", "sample", "--version", "1.0")


def infer(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return run(FakeNode(), "dtd", "infer", *map(str, arguments), stdin=stdin)


def event(payload: str, type_name: str = "sample", version: str = "1.0") -> bytes:
    return write_event(EventId("c", 1, 1, 1), "s", EventType(type_name, version), payload.encode())


def check(dtd: str, folder: Path, *samples: Path) -> Result:
    file = folder / "sample-1.0.dtd"
    file.write_text(dtd)
    return run(FakeNode(), "dtd", "check", str(file), *map(str, samples))


def test_samples_come_from_files_folders_and_archives(tmp_path: Path) -> None:
    samples = tmp_path / "samples"
    samples.mkdir()
    (samples / "one.xml").write_text("<?xml version='1.0'?><a><b/></a><a>\n<c/></a>")
    (samples / "two.gz").write_bytes(gzip.compress(b"<a x='1'/>"))
    utf_16 = "<?xml version='1.0' encoding='UTF-16'?><a y='\u00fc'/>".encode("utf-16")
    (samples / "three.xml").write_bytes(utf_16)
    with tarfile.open(samples / "four.tar", "w") as archive:
        archive.add(samples / "one.xml", "inner.xml")
    (samples / "event.xml").write_bytes(event("<a><z/></a>"))
    result = infer(samples, *TYPE)
    assert result.exit_code == 0, result.output
    assert "inferred from 7 samples" in result.stderr
    assert "<!ELEMENT a (z | b | c)*>" in result.stdout
    checked = check(result.stdout, tmp_path, samples)
    assert "7 of 7 events are valid" in checked.stderr, checked.output


def test_a_quarantine_gives_the_events_of_the_type(tmp_path: Path) -> None:
    folder = tmp_path / "quarantine"
    folder.mkdir()
    documents = [
        event("<a><b/></a>"),
        event("<flight/>", "flight"),
        event("<a><c/></a>", version="1.1"),
        event("<a>").removesuffix(b"</Mspaces:Event>"),
        event("<a/><a/>"),
        event(""),
    ]
    for number, document in enumerate(documents, 1):
        (folder / f"{number}.xml").write_bytes(document)
        (folder / f"{number}.json").write_text('{"sender": "x", "code": "not-valid"}')
    result = infer(folder, *TYPE)
    assert result.exit_code == 1
    assert "<!ELEMENT a (b | c)*>" in result.stdout
    assert "flight" not in result.stdout
    notes = result.stderr.splitlines()
    assert notes[0].startswith(f"{folder / '4.xml'}:")
    assert notes[1] == f"{folder / '5.xml'}:1: the event has 2 payloads"
    assert "JSON" not in result.stderr
    assert notes[-3:] == [
        "left out: 1 event of type flight",
        "left out: 1 event without a payload",
        "left out, since unreadable: 2 samples",
    ]


def test_a_quarantine_is_checked_against_the_inferred_dtd(tmp_path: Path) -> None:
    folder = tmp_path / "quarantine"
    folder.mkdir()
    (folder / "1.xml").write_bytes(event("<a><b/></a>"))
    (folder / "1.json").write_text('{"sender": "x"}')
    checked = check(infer(folder, *TYPE).stdout, tmp_path, folder)
    assert "1 of 1 events are valid" in checked.stderr
    (folder / "lines.json").write_text("{}")
    assert "left out, since samples are XML: 1 of JSON" in infer(folder, *TYPE).stderr


def test_collections_are_cut_into_samples(tmp_path: Path) -> None:
    feed = tmp_path / "feed.atom"
    feed.write_text(
        '<f:feed xmlns:f="urn:feed" xmlns:c="urn:cap"><f:title/>'
        "<f:entry><c:alert><c:sent>1</c:sent></c:alert></f:entry>"
        '<f:entry><alert xmlns="urn:cap"><note/><sent/></alert></f:entry></f:feed>'
    )
    split = ("--split", "//cap:alert", "--namespace", "cap=urn:cap")
    result = infer(feed, *split, *TYPE)
    assert result.exit_code == 0, result.output
    assert "inferred from 2 samples" in result.stderr
    assert "<!ELEMENT c:alert (c:note?, c:sent?)>" in result.stdout
    file = tmp_path / "sample-1.0.dtd"
    file.write_text(result.stdout)
    checked = run(FakeNode(), "dtd", "check", str(file), str(feed), *split)
    assert "2 of 2 events are valid" in checked.stderr, checked.output
    assert infer(feed, "--namespace", "cap=urn:cap", *TYPE).exit_code == 2
    assert infer(feed, "--split", "//[", *TYPE).exit_code == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there are no samples to infer a DTD from"),
        ("{}", "there are no samples to infer a DTD from"),
        ("no XML", "this is neither XML nor JSON lines"),
        ("<a>", "not well-formed"),
        ("<a>&other;</a>", "not well-formed: Entity 'other' not defined"),
        ("<a xmlns:m='urn:xmlbroker:mspaces'><m:b/></a>", "element of the envelope's namespace"),
        (f"<a {' '.join(f'x{n}=' + repr('') for n in range(300))}/>", "more than 256 attributes"),
    ],
)
def test_unusable_samples_are_a_clear_error(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "s.xml"
    file.write_text(text)
    result = infer(file, *TYPE)
    assert result.exit_code == 1
    assert problem in result.stderr and "Traceback" not in result.output
    assert result.stderr.splitlines()[-1].startswith("xmlbroker: ")
    assert result.stdout == ""


def test_type_and_version_are_needed(tmp_path: Path) -> None:
    assert infer(tmp_path).exit_code == 2
    assert infer(*TYPE).exit_code == 2
    result = infer(tmp_path, "--type", "no type", "--version", "1.0")
    assert result.exit_code == 1 and "'no type' is not an event type" in result.stderr
