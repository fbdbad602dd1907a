from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.ingest import unvalidated_events as module
from broker.ingest.unvalidated_events import UnvalidatedEvents


def at_once(call: Callable[[bytes], object], data: bytes) -> None:
    call(data)


def opened(path: Path) -> UnvalidatedEvents:
    return UnvalidatedEvents(path, at_once, sync=False)


def test_ranges_survive_a_restart_until_they_are_trimmed(tmp_path: Path) -> None:
    path = tmp_path / "undecided.json"
    first = opened(path)
    assert not first and not first.is_file_damaged
    first.add_range("aa", (1, 5), (1, 7), 2)
    first.add_range("aa", (1, 3), (1, 3), 1)
    again = opened(path)
    assert [again.may_contain("aa", (1, n)) for n in (2, 3, 7, 8)] == [False, True, True, False]
    again.remove_trimmed({"aa": (1, 7)})
    assert not again and not opened(path)


@pytest.mark.parametrize(
    "damage", [lambda d: d.replace(b"7", b"6"), lambda d: d[:9], lambda d: b""]
)
def test_after_damage_all_events_of_other_origins_are_validated_again(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "undecided.json"
    opened(path).add_range("aa", (1, 5), (1, 7), 2)
    path.write_bytes(damage(path.read_bytes()))
    again = opened(path)
    assert again.is_file_damaged
    again.add_all({"aa": (1, 2)}, {"aa": (1, 9), "bb": (4, 4)})
    assert (
        again.may_contain("aa", (1, 8))
        and again.may_contain("bb", (4, 4))
        and not again.may_contain("bb", (4, 5))
    )
    assert not again.is_file_damaged and opened(path).may_contain("bb", (1, 1))


def test_a_failed_write_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "undecided.json"
    ranges = opened(path)
    with monkeypatch.context() as full:

        def fails(*_: object, **__: object) -> None:
            raise OSError("full")

        full.setattr(module, "write_checksummed", fails)
        ranges.add_range("aa", (1, 5), (1, 7), 2)
    assert not opened(path)
    ranges.add_range("aa", (1, 6), (1, 6), 1)
    assert opened(path).may_contain("aa", (1, 7))
