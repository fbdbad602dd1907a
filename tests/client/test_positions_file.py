"""The positions file: one process writes it, the next reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.client.effects import ResumePoint
from broker.client.incarnation import raise_incarnation
from broker.client.positions_file import FORMAT, PositionsFile
from broker.client.settings import client_settings
from broker.errors import ConfigurationError, SessionSuperseded
from broker.event.place import Position

POINTS = {
    "d": ResumePoint(Position({"n": (1, 7), "m": (2, 1 << 40)}), "alps.c1/n3"),
    "e": ResumePoint(Position({"n": (1, 1)})),
}


def process(folder: Path) -> PositionsFile:
    return PositionsFile(folder, "alice", raise_incarnation(folder, "alice", 0))


def test_the_next_process_reads_the_positions(tmp_path: Path) -> None:
    process(tmp_path).write(POINTS)
    assert process(tmp_path).read() == POINTS
    later = client_settings(client_id="alice", state=tmp_path)
    assert later.resume_points == POINTS and later.positions is not None
    assert client_settings(client_id="bob", state=tmp_path).resume_points == {}


def test_a_first_process_finds_nothing(tmp_path: Path) -> None:
    assert process(tmp_path).read() == {}


def test_it_is_replaced_as_a_whole(tmp_path: Path) -> None:
    file = process(tmp_path)
    file.write(POINTS)
    with open(file.path, encoding="utf-8") as opened:
        file.write({})
        assert len(json.loads(opened.read())["durables"]) == 2, "who reads it sees the old whole"
    assert file.read() == {}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "alice.incarnation",
        "alice.positions",
        "alice.positions-before",
    ]


def test_a_process_that_was_superseded_writes_no_more(tmp_path: Path) -> None:
    old = process(tmp_path)
    new = process(tmp_path)
    new.write(POINTS)
    with pytest.raises(SessionSuperseded):
        old.write({})
    assert new.read() == POINTS


WRONG = [
    b"",
    b"\xff\xfe",
    b"[]",
    b"{}",
    b"[" * 100_000,
    json.dumps({"format": "xmlbroker-positions-2", "durables": {}}).encode(),
    json.dumps({"format": FORMAT}).encode(),
    json.dumps({"format": FORMAT, "durables": []}).encode(),
    json.dumps({"format": FORMAT, "durables": {"d": 1}}).encode(),
    json.dumps({"format": FORMAT, "durables": {"d": {"node": "n"}}}).encode(),
    json.dumps({"format": FORMAT, "durables": {"d": {"node": 1, "position": []}}}).encode(),
    json.dumps(
        {"format": FORMAT, "durables": {"d": {"node": "", "position": [["n", 1, -1]]}}}
    ).encode(),
    json.dumps(
        {"format": FORMAT, "durables": {"d": {"node": "", "position": [["n", 1.5, 1]]}}}
    ).encode(),
]


@pytest.mark.parametrize("content", WRONG, ids=range(len(WRONG)))
def test_a_file_with_other_content_is_named_in_the_error(tmp_path: Path, content: bytes) -> None:
    file = process(tmp_path)
    file.path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="alice.positions does not hold positions"):
        client_settings(client_id="alice", state=tmp_path)


def test_a_truncated_file_is_an_error(tmp_path: Path) -> None:
    file = process(tmp_path)
    file.write(POINTS)
    whole = file.path.read_bytes()
    for length in range(len(whole)):
        file.path.write_bytes(whole[:length])
        with pytest.raises(ConfigurationError):
            file.read()


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    file = process(tmp_path)
    file.path.mkdir()
    with pytest.raises(ConfigurationError, match="can not be read"):
        file.read()
    with pytest.raises(ConfigurationError, match="can not be written"):
        file.write(POINTS)


def test_every_flipped_bit_is_found_and_the_previous_file_is_used(tmp_path: Path) -> None:
    incarnation = raise_incarnation(tmp_path, "c", 5)
    file = PositionsFile(tmp_path, "c", incarnation)
    older = {"d": ResumePoint(Position({"o": (1, 2)}), "c/node")}
    newer = {"d": ResumePoint(Position({"o": (1, 9)}), "c/node")}
    file.write(older)
    file.write(newer)
    data = file.path.read_bytes()
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << (bit % 8)
        file.path.write_bytes(damaged)
        assert file.read() == older, bytes(damaged)
    file.path.write_bytes(data)
    assert file.read() == newer
