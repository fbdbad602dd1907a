"""Own events stay until the archive has them, while there is room."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.logger import capturedLogs, formatEvent

from broker.archiver.hold_report import HoldReport
from broker.event.place import Mark
from broker.log.archive_hold import ArchiveHold
from broker.log.commit import Retention
from tests.archiver.archived_node import Site

KEPT = 100_000
MOST = 400_000


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, max_bytes=KEPT, unarchived_bytes=MOST)


def fill(site: Site, commits: int) -> None:
    for _ in range(commits):
        site.log_more(5, document=bytes(4_000))


def test_nothing_is_taken_that_is_not_archived(site: Site) -> None:
    fill(site, 10)
    assert KEPT < site.log.bounds.used_bytes < MOST
    assert site.origin not in site.log.begins_after
    assert site.log.archive_hold.held_after == (1, 0)
    archiver = site.carry()
    site.log.archive_hold.archived = archiver.reached[site.origin]
    assert site.log.archive_hold.held_after is None
    fill(site, 2)
    assert site.log.begins_after[site.origin] >= (1, 20)
    assert site.log.archive_hold.dropped_unarchived == 0
    site.carry(archiver)
    assert site.covered() == (((0, 0), (1, 60)),)


def test_beyond_the_limit_the_oldest_go_and_are_counted(site: Site) -> None:
    fill(site, 40)
    assert site.log.bounds.used_bytes < MOST + 100_000
    assert site.log.archive_hold.dropped_unarchived == site.log.begins_after[site.origin][1] > 0
    assert site.log.archive_hold.held_after == site.log.begins_after[site.origin]


def test_nothing_is_dropped_before_it_is_announced(site: Site) -> None:
    """The archiver of a new node may not have reported yet."""
    hold, report = site.log.archive_hold, HoldReport()
    hold.is_announced = False
    fill(site, 16)
    assert hold.dropped_unarchived == 0
    while site.log.bounds.used_bytes <= MOST:
        fill(site, 1)
        report.log_changes(hold, site.log.bounds.used_bytes, is_known=False)
    fill(site, 1)
    assert hold.dropped_unarchived == 0
    with capturedLogs() as logs:
        report.log_changes(hold, site.log.bounds.used_bytes)
    assert any("will be removed" in formatEvent(each) for each in logs)
    fill(site, 1)
    assert hold.dropped_unarchived > 0


def test_the_limit_holds_without_an_announcement(site: Site) -> None:
    site.log.archive_hold.is_announced = False
    fill(site, 40)
    assert site.log.bounds.used_bytes < MOST * 9 / 8 + 100_000
    assert site.log.archive_hold.dropped_unarchived > 0


def test_without_an_archive_nothing_is_held(tmp_path: Path) -> None:
    assert Retention().unarchived_bytes == 0
    site = Site(tmp_path, max_bytes=KEPT)
    fill(site, 10)
    assert site.origin in site.log.begins_after
    assert site.log.archive_hold.dropped_unarchived == 0


@pytest.mark.parametrize(("is_told", "most"), [(True, 1000), (False, 1125)])
def test_events_stay_in_a_log_that_is_as_large_as_it_may_be(is_told: bool, most: int) -> None:
    hold = ArchiveHold(1000, is_announced=is_told)
    assert hold.holds_events((1, 1), (1, 5), most) and hold.dropped_unarchived == 0
    assert not hold.holds_events((1, 1), (1, 5), most + 1) and hold.dropped_unarchived == 5


def test_dropping_is_announced_before_events_go() -> None:
    hold, report = ArchiveHold(1000), HoldReport()

    def said(used: int) -> list[str]:
        with capturedLogs() as logs:
            report.log_changes(hold, used)
            report.log_changes(hold, used)
        return [f"{each['log_level'].name}: {formatEvent(each)}" for each in logs]

    assert said(100) == []
    hold.holds_events((1, 1), (1, 5), 500)
    [kept] = said(500)
    assert kept.startswith("warn: the archive lacks own events behind (1, 0)")
    hold.holds_events((1, 1), (1, 5), 950)
    [near] = said(950)
    assert near.startswith("error: the log has 950 of 1000 bytes")
    hold.holds_events((1, 1), (1, 5), 1001)
    hold.holds_events((1, 6), (1, 9), 990)
    [gone] = said(990)
    assert gone == "error: 5 own events were removed that the archive lacks"
    hold.archived = (1, 9)
    [over] = said(990)
    assert over.startswith("info: ")


@pytest.mark.parametrize(
    ("used_bytes", "archived", "stay"),
    [(200, (1, 6), True), (201, (1, 6), False), (200, (1, 7), False)],
)
def test_copies_that_are_not_archived_stay_up_to_half_of_the_limit(
    used_bytes: int, archived: Mark, stay: bool
) -> None:
    hold = ArchiveHold(most_bytes=400, archived_replicas={"o": archived})
    assert hold.holds_replica("o", (1, 7), used_bytes) is stay
