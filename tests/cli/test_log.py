from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

from broker.cli import main
from broker.log.commit import Commit, Retention
from broker.log.log_file import LogFile
from broker.log.page_file import FILE
from tests.cli.fake_node import FakeNode
from tests.cli.fake_node import run as run_command
from tests.log.bit_damage import damage_folder, flipped, read_past_damage
from tests.log.old_log import made


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["log", "verify", *map(str, arguments)])


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """200 events in twenty chunks, and a durable subscription."""
    log = LogFile(tmp_path / "log", Retention(), sync=False)
    for first in range(1, 200, 10):
        events = made(log.origin, first, 10, first)
        log.commit(
            Commit(
                events,
                covered={log.origin: events[-1].mark},
                durables=[(b"a\0d", b"%d" % first)],
                marks=[(("a", 1), bytes(24))],
            ),
            1,
            0,
        )
    log.close()
    return tmp_path


def test_an_intact_log_has_no_findings(folder: Path) -> None:
    result = run(folder)
    assert result.exit_code == 0, result.output
    (total,) = lines(result)
    assert (total["events"], total["chunks"], total["findings"]) == (200, 20, 0)
    assert total["format"] == 4 and total["values"] >= 6


def test_damage_is_reported_exactly(folder: Path) -> None:
    log = folder / "log"
    damage_folder(log, "events", lambda value: flipped(value, len(value) * 8 - 3), 2)
    damage_folder(log, "events", lambda value: flipped(value, 40), 4)
    damage_folder(log, "events", lambda value: None, 7)
    damage_folder(log, "durables", lambda value: flipped(value, 60))
    result = run(folder)
    assert result.exit_code == 1
    *found, total = lines(result)
    assert total["findings"] == 4
    assert {(each["kind"], each["table"], *each["serials"]) for each in found} == {
        ("event", "events", 30, 30),
        ("head", "events", 41, 50),
        ("missing", "events", 71, 80),
        ("copy", "durables", 0, 0),
    }
    head = next(each for each in found if each["kind"] == "head")
    assert (head["first"], head["last"]) == ("1:41", "1:50") and head["origin"]


def test_a_repair_restores_values_and_keeps_the_places_of_lost_events(folder: Path) -> None:
    log = folder / "log"
    damage_folder(log, "durables", lambda value: flipped(value, 60))
    result = run(folder, "--repair")
    assert result.exit_code == 0, result.output
    assert lines(result)[-1]["findings"] == 0
    damage_folder(log, "events", lambda value: flipped(value, 40), 4)
    result = run(folder, "--repair")
    assert result.exit_code == 1 and lines(result)[-1]["findings"] == 1
    opened = LogFile(log, Retention(), sync=False)
    events, (damage,) = read_past_damage(opened)
    assert (len(events), damage.first, damage.last) == (190, 41, 50)


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_a_cut_file_is_salvaged(folder: Path, part: float) -> None:
    path = folder / "log" / FILE
    with open(path, "r+b") as file:
        file.truncate(int(path.stat().st_size * part))
    result = run(folder)
    assert result.exit_code == 1 and any(each.get("kind") == "page" for each in lines(result))
    result = run(folder, "--repair")
    assert (folder / "log" / (FILE + ".damaged")).exists(), result.output
    said = lines(run(folder))
    assert not any(each.get("kind") == "page" for each in said)
    opened = LogFile(folder / "log", Retention(), sync=False)
    events, damages = read_past_damage(opened)
    spans = [span for damage in damages for span in damage.spans]
    told = {n for span in spans for n in range(span.after[1] + 1, span.upto[1] + 1)}
    if (opened.origin, 200) in [(o, mark[1]) for o, mark in opened.covered.items()]:
        assert {event.offset for event in events} | told == set(range(1, 201))


@pytest.mark.parametrize("seed", range(40))
def test_flipped_bits_are_found_or_harmless(folder: Path, seed: int) -> None:
    """Data without a finding reads as it was written, also after a repair."""
    random = Random(seed)
    log = folder / "log"
    path = log / FILE
    data = bytearray(path.read_bytes())
    at = random.randrange(len(data))
    if seed % 2:
        # At the start of pages and chunks.
        at = at // 4096 * 4096 + random.randrange(120)
    data[at] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    run(folder, "--repair")
    said = lines(run(folder))
    try:
        opened = LogFile(log, Retention(), sync=False)
    except Exception as error:
        raise AssertionError(f"byte {at} of {len(data)}, {said}") from error
    events, damages = read_past_damage(opened)
    wanted = {e.offset: e.document for e in made(opened.origin, 1, 200, 1)}
    assert all(wanted[event.offset] == event.document for event in events), f"byte {at}"
    lost = {mark[1] for damage in damages for mark in damage.marks}
    missing = wanted.keys() - {event.offset for event in events}
    spans = [span for damage in damages for span in damage.spans]
    told = lost | {n for span in spans for n in range(span.after[1] + 1, span.upto[1] + 1)}
    assert missing <= told, f"byte {at}: {sorted(missing - told)} of {said}"
    opened.close()


def test_the_log_of_a_running_node_can_be_verified(folder: Path) -> None:
    opened = LogFile(folder / "log", Retention(), sync=False)
    # A claim excludes other processes only.
    result = subprocess.run(
        [sys.executable, "-m", "broker.cli", "log", "verify", folder],
        capture_output=True,
        text=True,
        env=dict(os.environ),
    )
    assert result.returncode == 0, result.stderr
    assert "read while the node runs" in result.stderr
    assert json.loads(result.stdout)["events"] == 200
    opened.close()


@pytest.mark.parametrize("undo", [False, True])
def test_giving_a_log_up_prints_the_answer(undo: bool) -> None:
    answer = {"origin": "a" * 24, "changed": True, "given_up": not undo, "certified": False}
    node = FakeNode(answers={"log-give-up": answer})
    result = run_command(node, "log", "give-up", "a" * 24, *["--undo"] * undo)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == answer
    asked = {"origin": "a" * 24, "undo": "yes" if undo else ""}
    assert node.asked == [("log-give-up", asked)]


@pytest.mark.parametrize(
    ("given_up", "certified", "line"),
    [
        (True, False, "o is given up"),
        (True, True, "o is given up, and a majority of its cluster has given it up"),
        (False, False, "o is awaited"),
    ],
)
def test_a_terminal_gets_a_sentence_about_a_log(
    given_up: bool, certified: bool, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.cli.log.is_terminal", lambda: True)
    answer = {"origin": "o", "changed": True, "given_up": given_up, "certified": certified}
    result = run_command(FakeNode(answers={"log-give-up": answer}), "log", "give-up", "o")
    assert result.stdout == line + "\n"
