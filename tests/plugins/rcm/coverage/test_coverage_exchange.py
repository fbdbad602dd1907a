"""Reports of sites about delivered messages, and wrong ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack
import pytest

from broker.errors import ProtocolError
from broker.event.place import Mark
from broker.event.site_coverage import MOST_SITES, CoveredMessages
from broker.event.site_notice import SiteCoverage
from broker.transport.order import MessageId, Stamp
from plugins.rcm.coverage.coverage_exchange import INTERVAL, SETTLING, CoverageExchange
from plugins.rcm.coverage.packet import MARK
from plugins.rcm.delivered_run import read_runs
from plugins.rcm.effects import (
    DeliverMessage,
    EndLink,
    GroupEffect,
    PassNotice,
    SendPacket,
)
from plugins.rcm.observer import is_marked
from plugins.rcm.payload import Channel
from tests.plugins.rcm.coverage.events import make_event


class Site:
    """One site, whose log has all that was delivered before `commit`."""

    def __init__(self, name: str = "a", incarnation: int = 3) -> None:
        self.mark: Mark = (0, 0)
        self.released = 0
        self.exchange = CoverageExchange(
            "g", name, incarnation, lambda _: self.mark, lambda: self.released
        )

    def deliver(self, now: float, *numbers: int, site: str = "a", of: int = 3) -> None:
        events = [make_event(number, site, of) for number in numbers]
        assert self.exchange.deliver("f", read_runs("g", events), now) == []

    def commit(self, upto: int) -> None:
        self.mark = (1, upto)

    def time_out(self, now: float) -> list[tuple[list[str], Any]]:
        """Return the receivers of reports, and the rows in these."""
        found: list[tuple[list[str], Any]] = []
        for effect in self.exchange.handle_timeout(now):
            assert isinstance(effect, SendPacket) and is_marked(effect.data)
            incarnation, rows = msgpack.unpackb(effect.data[1:])
            assert incarnation == 3
            found.append((list(effect.sites), rows))
        return found


def report(*rows: Sequence[object], incarnation: int = 1) -> bytes:
    packed: bytes = msgpack.packb([incarnation, rows])
    return MARK + packed


def told(effects: Sequence[GroupEffect], site: str = "b") -> tuple[CoveredMessages, ...]:
    """Return the rows of the only notice."""
    (effect,) = effects
    assert isinstance(effect, PassNotice) and isinstance(effect.notice, SiteCoverage)
    assert (effect.notice.stack, effect.notice.site) == ("g", site)
    return effect.notice.covered


def test_the_first_notice_names_the_own_site() -> None:
    site = Site()
    assert told(site.exchange.restore([], 0.0), "a") == ()
    assert site.exchange.next_timeout() is None


def test_connected_sites_get_a_report_soon_after_a_commit_and_then_one_a_second() -> None:
    site = Site()
    site.exchange.connect("b", 0.0)
    assert site.time_out(SETTLING) == []
    site.deliver(9.0, 1, 2)
    site.deliver(9.1, 1, site="c", of=7)
    site.commit(2)
    assert site.exchange.next_timeout() == 9.0 + SETTLING
    assert site.time_out(9.2) == []
    assert site.time_out(9.25) == [(["b"], [["a", 3, 1, 2, []], ["c", 7, 1, 1, []]])]
    assert site.exchange.next_timeout() is None
    site.deliver(9.3, 3)
    assert site.exchange.next_timeout() == 9.25 + INTERVAL
    # Its commit takes long.
    assert site.time_out(10.25) == []
    site.commit(3)
    # Only what has changed.
    assert site.time_out(11.25) == [(["b"], [["a", 3, 1, 3, []]])]
    assert site.exchange.next_timeout() is None


def test_a_site_that_connects_gets_all_and_one_that_has_gone_nothing() -> None:
    site = Site()
    for other in "bcd":
        site.exchange.connect(other, 0.0)
    site.deliver(0.0, 1)
    site.exchange.deliver_message(
        DeliverMessage(Channel.CLIENTS, MessageId("c", 1, 5), Stamp(1, "c"), None, b"", False), 0.0
    )
    site.commit(1)
    rows = [["a", 3, 1, 1, []], ["c", 1, 5, 5, []]]
    assert site.time_out(1.0) == [(["b", "c", "d"], rows)]
    site.exchange.disconnect("c", 2.0)
    site.exchange.disconnect("d", 2.0)
    site.exchange.connect("d", 3.0)
    assert site.time_out(4.0) == [(["d"], rows)]
    site.exchange.connect("c", 5.0)
    site.exchange.miss("a", 3, 2, 4, 5.0)
    news = ["a", 3, 1, 4, [[2, 4]]]
    assert site.time_out(6.0) == [(["c"], [news, rows[1]]), (["b", "d"], [news])]


def test_messages_that_were_taken_back_are_not_reported() -> None:
    site = Site()
    site.exchange.connect("b", 0.0)
    site.deliver(0.0, 1, 2)
    site.exchange.take_back([(MessageId("a", 3, 2), Stamp(2, "a"))], 0.1)
    site.commit(2)
    assert site.time_out(1.0) == [(["b"], [["a", 3, 1, 1, []]])]


def test_reports_reach_subscriptions_and_the_status() -> None:
    site = Site()
    site.released = 9
    packets = [
        report(["a", 3, 1, 5, [[2, 3]]]),
        report(["a", 3, 1, 6, [[2, 3]]], ["x", 1, 1, 2, []]),
    ]
    rows = (CoveredMessages("a", 3, 1, 6, ((2, 3),)), CoveredMessages("x", 1, 1, 2))
    assert told(site.exchange.receive("b", packets, 1.0)) == rows
    # The same again is no news.
    assert site.exchange.receive("b", packets[1:], 2.0) == []
    assert site.exchange.describe_site("b", 2.0) == {"delivered": 4, "dropped_rows": 0}
    assert site.exchange.describe_site("c", 2.0) == {"delivered": 0, "dropped_rows": 0}
    assert site.exchange.snapshot() == {"released": 9, "rejected_reports": 0}


def test_a_new_process_of_a_site_may_know_less() -> None:
    site = Site()
    site.exchange.receive("b", [report(["c", 1, 1, 9, []])], 1.0)
    rows = told(site.exchange.receive("b", [report(["c", 1, 4, 8, []], incarnation=2)], 2.0))
    assert rows == (CoveredMessages("c", 1, 4, 8),)


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (MARK, "malformed"),
        (MARK + b"\xc1", "malformed"),
        (report(["c", 1, 1, 2]), "malformed"),
        (report(["", 1, 1, 2, []]), "malformed"),
        (report(["c", -1, 1, 2, []]), "malformed"),
        (report(["c", 1, 1, 2**63, []]), "malformed"),
        (report(["c", 1, 1, 99, [[n, n] for n in range(2, 50)]]), "malformed"),
        (report(*[["c", 1, 1, 2, []]] * 1_000), "malformed"),
        (MARK + b"x" * (1 << 20), "bytes"),
        (report(["c", 1, 5, 2, []]), "can not lack"),
        (report(["c", 1, 1, 9, [[4, 3]]]), "can not lack"),
        (report(["c", 1, 1, 3, []]), "fall from 4 to 3"),
        (report(["c", 1, 1, 4, []], incarnation=0), "earlier incarnation 0"),
        (report(["a", 3, 1, 8, []]), "message 3/8 of this site was not sent"),
        (report(["a", 4, 1, 1, []]), "message 4/1 of this site was not sent"),
    ],
)
def test_a_wrong_report_ends_the_link_with_the_reason(packet: bytes, reason: str) -> None:
    site = Site()
    site.released = 7
    good = report(["c", 1, 1, 4, []], ["a", 3, 1, 7, []], ["a", 2, 1, 99, []])
    assert len(told(site.exchange.receive("b", [good], 1.0))) == 3
    (ended,) = site.exchange.receive("b", [packet], 2.0)
    assert isinstance(ended, EndLink) and ended.site == "b"
    assert isinstance(ended.error, ProtocolError) and reason in ended.error.text
    assert site.exchange.snapshot()["rejected_reports"] == 1
    assert site.exchange.describe_site("b", 3.0)["delivered"] == 7


def test_a_flood_of_reports_ends_the_link() -> None:
    site = Site()
    packets = [report(["c", 1, 1, number, []]) for number in range(1, 100)]
    (ended,) = site.exchange.receive("b", packets, 1.0)
    assert isinstance(ended, EndLink) and "a flood of reports" in ended.error.text


def test_reports_about_too_many_sites_are_dropped_and_counted() -> None:
    site = Site()
    rows = [[f"s{number}", 1, 1, 2, []] for number in range(MOST_SITES + 3)]
    assert len(told(site.exchange.receive("b", [report(*rows)], 1.0))) == MOST_SITES
    assert site.exchange.describe_site("b", 2.0)["dropped_rows"] == 3
