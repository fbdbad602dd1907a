from __future__ import annotations

from pathlib import Path

import pytest

from broker.log.commit import Commit, Retention
from broker.log.damage import DamageKind
from broker.log.log_file import LogFile
from tests.log.bit_damage import damage_folder, damage_log, flipped, read_past_damage
from tests.log.test_damage import event, filled


@pytest.mark.parametrize("nth", range(4))
def test_a_chunk_that_is_missing_at_the_start_is_damage_of_which_the_places_are_known(
    tmp_path: Path, nth: int
) -> None:
    log, everything = filled(tmp_path)
    log.close()
    damage_folder(tmp_path, "events", lambda value: None, nth)
    again = LogFile(tmp_path, Retention(), sync=False)
    assert (again.bounds.first, again.bounds.last) == (1, 20)
    intact, (damage,) = read_past_damage(again)
    lost = everything[5 * nth : 5 * nth + 5]
    assert [each.place for each in intact] == [e.place for e in everything if e not in lost]
    assert damage.origin == lost[0].origin
    assert damage.marks == tuple(each.mark for each in lost)
    # Later events have serials after it.
    again.commit(Commit([event(11, 21, again.origin)]), 2, 0)
    assert again.repair(damage, everything) is None
    intact, damages = read_past_damage(again)
    assert [each.place for each in intact[:-1]] == [each.place for each in everything]
    assert not damages
    again.close()


def test_a_damaged_event_that_retention_took_meanwhile_does_not_come_back(tmp_path: Path) -> None:
    log, everything = filled(tmp_path)
    damage_log(log, "events", lambda value: flipped(value, len(value) * 8 - 20), 0)
    _, (damage,) = read_past_damage(log)
    assert damage.kind is DamageKind.EVENT
    log._retention = Retention(max_age_ms=0)
    log.commit(Commit(), 1, 10**9)
    assert log.repair(damage, everything) is None
    assert log.read(0, 99, 1 << 30) == [] == log.read_origin(log.origin, (0, 0), 99, 1 << 30)
    log.close()
