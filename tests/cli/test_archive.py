"""`xmlbroker archive` on folders with an archive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from broker.archive.archive import Archive
from broker.archive.writer import ArchiveWriter
from broker.cli import main
from broker.event.place import Position
from broker.subscriptions.durable_subscriptions import DurableSubscription
from tests.archive.events import MORNING, covering, event

MADE = [event(n) for n in range(1, 9)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four files of one old hour."""
    where = tmp_path / "archive"
    writer = ArchiveWriter(Archive.open(str(where)), "aa", lambda: MORNING)
    for start in range(0, 8, 2):
        some = MADE[start : start + 2]
        writer.write(covering(some), some, {})
    return where


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["archive", *map(str, arguments)])


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def durable(folder: Path, stored: bytes) -> None:
    writer = ArchiveWriter(Archive.open(str(folder)), "bb", lambda: MORNING)
    writer.put_durables([("desk", "alarms", stored)])


def test_partitions_and_covered_ranges_are_listed(folder: Path) -> None:
    result = run("list", folder)
    assert result.exit_code == 0
    [partition, covered] = lines(result)
    assert (partition["partition"], partition["files"], partition["events"]) == ("s", 4, 8)
    assert (partition["from"], partition["to"]) == ("2026-11-20T07", "2026-11-20T07")
    assert covered == {"covered": "aa", "after": [1, 0], "upto": [1, 8]}


def test_files_are_listed_on_request(folder: Path) -> None:
    listed = lines(run("list", "--files", folder.as_uri()))[:-1]
    assert [each["events"] for each in listed] == [2, 2, 2, 2]
    assert all((folder / each["file"]).stat().st_size == each["bytes"] for each in listed)


def test_an_intact_archive_has_no_faults(folder: Path) -> None:
    result = run("verify", folder)
    assert result.exit_code == 0
    [told] = lines(result)
    assert (told["files"], told["rows"], told["faults"]) == (4, 8, 0)


def test_a_damaged_file_is_reported_and_set_aside(folder: Path) -> None:
    path = min(folder.rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-20])
    kept = run("verify", "--keep", folder)
    assert kept.exit_code == 1
    assert lines(kept)[0]["name"] == path.relative_to(folder).as_posix()
    assert run("list", folder).exit_code == 0
    assert run("verify", folder).exit_code == 1
    listed = run("list", folder)
    assert listed.exit_code == 1
    assert lines(listed)[-1]["damaged"] == path.relative_to(folder).as_posix()


def test_an_archive_is_copied_and_a_damaged_file_is_named(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    [done] = lines(run("copy", folder, copy))
    assert (done["files"], done["there"], done["damaged"]) == (4, 0, [])
    assert run("verify", copy).exit_code == 0
    path = min(folder.rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-20])
    # Existing files are not read again.
    assert run("copy", folder, copy).exit_code == 0
    again = run("copy", folder, tmp_path / "another")
    assert again.exit_code == 1
    assert lines(again)[0]["damaged"] == [path.relative_to(folder).as_posix()]
    assert run("copy", tmp_path / "nowhere", copy).exit_code == 1


def test_small_files_are_merged_or_only_named(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    [planned] = lines(run("compact", "--dry-run", folder))
    assert (planned["partition"], planned["files"]) == ("s", 4)
    assert sorted(folder.rglob("*")) == before
    [done] = lines(run("compact", folder))
    assert (done["files_before"], done["files_after"]) == (4, 1)
    assert lines(run("list", folder))[0]["files"] == 1


def test_old_hours_go_or_are_only_named(folder: Path) -> None:
    [planned] = lines(run("expire", "--dry-run", "--age", "1h", folder))
    assert (len(planned["removed"]), planned["dry_run"]) == (4, True)
    assert lines(run("list", folder))[0]["files"] == 4
    [done] = lines(run("expire", "--age", "1h", folder))
    assert len(done["removed"]) == 4
    assert lines(run("list", folder)) == []


@pytest.mark.parametrize(
    ("offset", "hard", "gone"), [(3, "0", 0), (8, "0", 4), (3, "1h", 4)], ids=str
)
def test_events_that_a_durable_subscription_needs_stay(
    folder: Path, offset: int, hard: str, gone: int
) -> None:
    durable(
        folder, DurableSubscription("s", "true()", {}, Position({"aa": (1, offset)}), 0).encode()
    )
    [done] = lines(run("expire", "--age", "1h", "--hard-age", hard, folder))
    assert len(done["removed"]) == gone
    assert done["held"] == ("" if gone else "2026-11-20T07")


def test_an_unreadable_durable_subscription_holds_everything(folder: Path) -> None:
    durable(folder, b"\xc1")
    result = run("expire", "--age", "1h", "--hard-age", "0", folder)
    assert lines(result)[0]["removed"] == []
    assert "alarms of desk is unreadable" in result.stderr


def test_the_oldest_go_beyond_a_size(folder: Path) -> None:
    [done] = lines(run("expire", "--size", "1kB", folder))
    assert len(done["removed"]) == 4
    assert lines(run("expire", "--size", "1GB", folder))[0]["removed"] == []


def test_the_oldest_go_beyond_a_number_of_events(folder: Path) -> None:
    assert lines(run("expire", "--events", "8", folder))[0]["removed"] == []
    [done] = lines(run("expire", "--events", "7", folder))
    assert len(done["removed"]) == 4


def test_a_node_s_configuration_names_its_archive(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(f'[archive]\nlocation = "{folder}"\n')
    assert lines(run("list", file))[0]["events"] == 8
    # The default is the folder `archive` beside the node's log.
    file.write_text(f'[node]\ndata = "{tmp_path}"\n')
    assert lines(run("list", file))[0]["events"] == 8
    for text in ("[archive]\nenabled = false", "archive = 3", "[archive"):
        file.write_text(text)
        result = run("list", file)
        assert result.exit_code == 1
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("where", ["nowhere", "nonsense://x", "nowhere.toml", ""])
def test_an_invalid_archive_is_a_one_line_error(tmp_path: Path, where: str) -> None:
    result = run("list", tmp_path / where if where == "nowhere" else where)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("bad", ["--age=old", "--size=5 parsecs", "--grace=-1", "--events=-1"])
def test_an_invalid_quantity_is_wrong_usage(folder: Path, bad: str) -> None:
    assert run("expire", bad, folder).exit_code == 2
