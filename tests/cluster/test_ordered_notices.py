from __future__ import annotations

from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred

from broker.cluster.ordered_notices import OrderedNotices
from broker.cluster.relay_ingest import MOST_WAITING_BYTES
from broker.dtd.reference import DtdReference
from broker.errors import LogUnavailable
from broker.event.place import Mark
from broker.matching.contract import TypeMissing
from tests.cluster.test_relay_ingest import FakeLog, Setting


class SerialLog(FakeLog):
    def __init__(self) -> None:
        super().__init__()
        self.serial = 0

    @property
    def newest(self) -> Mark:
        return (1, self.serial)

    def append_relayed(self, relayed: Any, done: Any) -> None:
        super().append_relayed(relayed, done)
        self.serial += len(relayed.entries)

    def append(self, entries: list[Any], done: Any) -> None:
        self.check_available()

        class Nothing:
            entries: list[Any] = []

        self.pending.append((Nothing, done))


class NoticeSetting(Setting):
    def __init__(self) -> None:
        super().__init__()
        self.serial_log = SerialLog()
        self.log = self.ingest._event_log = self.serial_log  # type: ignore[assignment]
        self.notices = OrderedNotices(self.ingest, self.serial_log)  # type: ignore[arg-type]
        self.passed: list[tuple[str, int, int]] = []
        """Notices, each with the serial and the number of logged events."""

    def notify(self, name: str) -> None:
        self.notices.call_in_order(
            lambda serial: self.passed.append((name, serial, len(self.log.logged)))
        )


def test_a_notice_is_passed_behind_the_ranges_and_commits_before_it() -> None:
    setting = NoticeSetting()
    setting.notify("first")
    setting.take(1, 3, "far/q")
    setting.notify("second")
    setting.take(1, 2, "own/q", is_copy=True)
    setting.notify("third")
    assert setting.passed == []
    setting.log.commit()
    assert setting.passed == [("first", 1, 0), ("second", 4, 3), ("third", 6, 5)]


def test_a_notice_waits_for_ranges_that_are_not_matched_yet() -> None:
    setting = NoticeSetting()
    setting.ingest._slices._is_running = True
    setting.take(1, 3, "far/q")
    setting.notify("one")
    setting.log.commit()
    assert setting.passed == []
    setting.ingest._slices._is_running = False
    setting.ingest._slices.run()
    setting.log.commit()
    assert setting.passed == [("one", 4, 3)]
    assert setting.ingest.waiting_bytes == 0


def test_a_failed_commit_takes_back_the_serial() -> None:
    setting = NoticeSetting()
    setting.take(1, 3, "far/q")
    setting.notify("one")
    setting.serial_log.serial = 0
    setting.log.commit(fails=True)
    assert setting.passed == [("one", 1, 0)]


@pytest.mark.parametrize("reason", ["full", "unavailable"])
def test_a_notice_that_can_not_wait_is_passed_at_once(reason: str) -> None:
    setting = NoticeSetting()
    if reason == "full":
        setting.ingest.waiting_bytes = MOST_WAITING_BYTES
    else:
        setting.log.resting = True
        with pytest.raises(LogUnavailable):
            setting.log.check_available()
    setting.notify("one")
    assert setting.passed == [("one", 1, 0)]


def test_a_notice_waits_for_the_type_of_an_event_before_it() -> None:
    setting = NoticeSetting()
    looked_up: list[Deferred[None]] = []

    class Dtds:
        def lookup(self, *_: object) -> Deferred[None]:
            looked_up.append(Deferred())
            return looked_up[-1]

        def get(self, _: object) -> object:
            return self

    setting.ingest._types._lookups._dtds = cast(Any, Dtds())
    real, missing = setting.matcher.match, TypeMissing(DtdReference("t", "1"), "")
    setting.matcher.match = lambda *_, marked: [missing]  # type: ignore[method-assign]
    setting.take(1, 1, "far/q")
    setting.notify("one")
    setting.log.commit()
    assert setting.passed == []
    setting.matcher.match = real  # type: ignore[method-assign]
    looked_up[0].callback(None)
    setting.clock.advance(1.0)
    setting.log.commit()
    assert setting.passed == [("one", 2, 1)]
