from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from broker.errors import NotConnected
from broker.event.place import Mark
from broker.log.damage import Damage, DamageKind, Span
from broker.log.logged_event import LoggedEvent
from broker.log.repair import RETRY_AFTER, Repairs

DAMAGE = Damage("events", b"k", 3, 5, DamageKind.HEAD, (Span("far", (1, 10), (1, 13)),))
COPIES = attrs.evolve(DAMAGE, table="kept", spans=(Span("gone", (1, 10), (1, 15)),))


class File:
    """Repairs nothing without events."""

    def repair(self, damage: Damage, events: Sequence[LoggedEvent]) -> Damage | None:
        return None if events else damage


def write(call: Callable[..., Any], *args: Any) -> Deferred[Any]:
    return succeed(call(*args))


def repairs(clock: Clock, *damages: Damage) -> Repairs:
    made = Repairs(File(), write, clock)
    for damage in damages:
        assert made.begin_repair(damage).called
    return made


@pytest.mark.parametrize(
    ("table", "origin", "mark", "end"),
    [
        ("events", "far", (1, 9), None),
        ("events", "far", (1, 10), (1, 13)),
        ("events", "far", (1, 12), (1, 13)),
        ("events", "far", (1, 13), None),
        ("events", "gone", (1, 10), None),
        ("kept", "gone", (1, 10), (1, 15)),
        ("kept", "far", (1, 10), None),
    ],
)
def test_a_reader_that_would_begin_with_damage_goes_on_behind_it(
    table: str, origin: str, mark: Mark, end: Mark | None
) -> None:
    made = repairs(Clock(), DAMAGE, COPIES)
    assert made.end_of_loss(table, origin, mark) == end


def test_given_up_damage_is_repaired_again_after_a_time() -> None:
    clock = Clock()
    made = repairs(clock, DAMAGE)
    clock.advance(RETRY_AFTER - 1)
    assert made.is_given_up(DAMAGE) and made.end_of_loss("events", "far", (1, 10)) == (1, 13)
    clock.advance(1)
    assert not made.is_given_up(DAMAGE) and made.end_of_loss("events", "far", (1, 10)) is None
    made.find_events = lambda _: succeed([LoggedEvent(1, 11, 0, 0, b"", b"", "far", 3)])
    assert made.begin_repair(DAMAGE).called
    assert made.given_up == []
    assert made.counts == {"found": 2, "given_up": 1, "repaired": 1}


def test_a_source_that_can_not_be_asked_gives_nothing_up() -> None:
    made = Repairs(File(), write, Clock())
    made.find_events = lambda _: fail(NotConnected("away"))
    failed: list[object] = []
    made.begin_repair(DAMAGE).addErrback(failed.append)
    assert len(failed) == 1 and not made.is_given_up(DAMAGE)
    assert made.counts == {"found": 1, "failed": 1}
