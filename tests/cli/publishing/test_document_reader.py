from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.cli.publishing.document_reader import Item, json_lines, read_all
from broker.cli.publishing.preparation import Preparation
from broker.cli.publishing.publication import Publication, Refusal

FLIGHT = b"<flight><id>%d</id><flightleg/></flight>"
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


def flight(number: int) -> bytes:
    return FLIGHT % number


def read(*arguments: Path | str, stdin: bytes = b"") -> list[Item]:
    texts = tuple(str(argument) for argument in arguments)
    return list(read_all(texts, lambda: io.BytesIO(stdin), Preparation()))


def payloads(items: list[Item]) -> list[bytes]:
    """Each item must be a publication."""
    found = []
    for item in items:
        assert isinstance(item, Publication), item
        assert item.payload is not None
        found.append(item.payload)
    return found


def refusals(items: list[Item]) -> list[str]:
    return [str(item) for item in items if isinstance(item, Refusal)]


def archive(*files: tuple[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def test_a_file_has_one_document_or_many(tmp_path: Path) -> None:
    (tmp_path / "one.xml").write_bytes(b"<?xml version='1.0'?>\n" + flight(1) + b"\n")
    (tmp_path / "many").write_bytes(flight(2) + flight(3))
    items = read(tmp_path / "one.xml", tmp_path / "many")
    assert payloads(items) == [flight(1), flight(2), flight(3)]
    assert str(items[0].location) == f"{tmp_path / 'one.xml'}:2"


def test_a_folder_is_read_whole_in_the_order_of_names_without_hidden_files(tmp_path: Path) -> None:
    for name, number in (("b.xml", 2), ("a/z.xml", 3), ("a/y/x", 4), ("a.xml", 1), (".c", 9)):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(flight(number))
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "d.xml").write_bytes(flight(9))
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    assert payloads(read(tmp_path)) == [flight(n) for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_an_archive_is_read_in_its_own_order(tmp_path: Path, ending: str) -> None:
    packed = archive(("b.xml", flight(1)), ("a.xml", flight(2) + flight(3)), ("empty", b""))
    (tmp_path / "x").write_bytes(COMPRESSIONS[ending](packed))
    items = read(tmp_path / "x")
    assert payloads(items) == [flight(1), flight(2), flight(3)]
    assert str(items[2].location) == f"{tmp_path / 'x'}: a.xml:1"


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_a_single_file_may_be_compressed(tmp_path: Path, ending: str) -> None:
    (tmp_path / "x").write_bytes(COMPRESSIONS[ending](flight(1)))
    assert payloads(read(tmp_path / "x")) == [flight(1)]


def test_files_of_an_archive_may_be_compressed(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(archive(("a.xml.gz", gzip.compress(flight(1)))))
    assert payloads(read(tmp_path / "x")) == [flight(1)]


def test_stdin_is_read_like_a_file() -> None:
    assert payloads(read("-", stdin=flight(1) + flight(2))) == [flight(1), flight(2)]
    assert payloads(read("-", stdin=gzip.compress(archive(("a", flight(1)))))) == [flight(1)]
    line = b'{"payload": "<flight><id>7</id><flightleg/></flight>"}\n'
    assert payloads(read("-", stdin=line)) == [flight(7)]


def test_a_document_of_a_pipe_does_not_wait_for_the_next() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as stdin, open(writing, "wb", buffering=0) as pipe:
        items = read_all(("-",), lambda: stdin, Preparation())
        for number in (1, 2, 3):
            pipe.write(flight(number))
            item = next(items)
            assert isinstance(item, Publication)
            assert item.payload == flight(number)
        items.close()


def test_a_document_in_utf_16_is_read(tmp_path: Path) -> None:
    text = '<?xml version="1.0" encoding="UTF-16"?><flight><id>é</id></flight>'
    for name, encoding in (("marked", "utf-16"), ("le", "utf-16-le"), ("be", "utf-16-be")):
        (tmp_path / name).write_bytes(text.encode(encoding))
    expected = "<flight><id>é</id></flight>".encode()
    assert payloads(read(tmp_path)) == [expected] * 3


def test_any_white_space_before_the_first_document_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\n" * 2000 + flight(1))
    items = read(tmp_path / "x")
    assert payloads(items) == [flight(1)]
    assert items[0].location.line == 2001


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    assert read(tmp_path / "x") == []


def test_an_unreadable_file_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(1000))
    (tmp_path / "x.xml").write_bytes(flight(1))
    items = read(tmp_path / "absent", tmp_path / "picture", tmp_path / "x.xml")
    assert "No such file" in refusals(items)[0]
    assert "neither XML nor JSON lines nor a tar archive" in refusals(items)[1]
    assert payloads(items[2:]) == [flight(1)]


@pytest.mark.parametrize("ending", COMPRESSIONS)
@pytest.mark.parametrize("kept", [0.1, 0.4, 0.7, 0.95])
def test_a_truncated_archive_is_reported(tmp_path: Path, ending: str, kept: float) -> None:
    noise = random.Random(1)
    files = [
        (f"{number}.xml", b"<a>%s</a>" % noise.randbytes(900).hex().encode())
        for number in range(30)
    ]
    packed = COMPRESSIONS[ending](archive(*files))
    end = len(archive(*files)) - 10_240 if ending == "" else len(packed)
    (tmp_path / "x").write_bytes(packed[: int(end * kept)])
    (tmp_path / "y").write_bytes(flight(1))
    items = read(tmp_path / "x", tmp_path / "y")
    assert len(refusals(items[:-1])) >= 1
    told = ("cut short", "stopped", "ended before the end")
    assert any(reason in line for line in refusals(items) for reason in told)
    assert payloads(items[-1:]) == [flight(1)]


def test_an_archive_truncated_between_two_files_is_reported(tmp_path: Path) -> None:
    # Two blocks for the headers, one for the content.
    whole = archive(("a", flight(1)), ("b", flight(2)))
    (tmp_path / "x").write_bytes(whole[: 3 * 512])
    items = read(tmp_path / "x")
    assert payloads(items[:1]) == [flight(1)]
    assert "its end mark is missing" in refusals(items)[0]


def test_a_bad_line_of_json_is_reported_with_its_number(tmp_path: Path) -> None:
    good = '{"stream":"s","type":"flight","version":"1.0","payload":"<flight/>"}'
    (tmp_path / "x").write_text(f"{good}\n\n{{bad\n{good}\n[1]\n{good}")
    items = read(tmp_path / "x")
    assert [item.location.line for item in items] == [1, 3, 4, 5, 6]
    assert [line.split(": ", 1)[1] for line in refusals(items)] == [
        "not JSON: Expecting property name enclosed in double quotes at character 2",
        "not a JSON object; --json-payload publishes any JSON",
    ]


def test_a_line_of_json_that_is_too_long_is_reported_and_not_stored() -> None:
    portions = [b'{"a":"', *[b"x" * 100] * 50, b'"}\n{"b":1}\n']
    lines = list(json_lines(portions, "f", max_line=300))
    assert [(line.location.line, line.problem, line.data) for line in lines] == [
        (1, "the line is longer than 300 bytes", b""),
        (2, "", b'{"b":1}'),
    ]


def test_the_voevent_archive_is_read_whole(shared_data: Path) -> None:
    items = read(shared_data / "voevent" / "2020-06.002.tar.bz2")
    assert len(payloads(items)) == 294
    assert {
        (i.event_type.name, i.event_type.version) for i in items if isinstance(i, Publication)
    } == {("VOEvent", "2.0")}
    assert all(isinstance(item, Publication) and item.time for item in items)


def test_the_packets_of_other_authors_are_read(shared_data: Path) -> None:
    items = read(shared_data / "voevent" / "fixtures-voevent-parse")
    versions = [item.event_type.version for item in items if isinstance(item, Publication)]
    assert versions.count("1.1") == 1
    assert versions.count("2.0") == 5


def test_an_attack_in_a_real_file_is_refused(shared_data: Path) -> None:
    assert "internal subset" in refusals(read(shared_data / "cap-google" / "xee.cap"))[0]
