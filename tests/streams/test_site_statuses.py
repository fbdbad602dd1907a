from __future__ import annotations

from typing import Any

import attrs
import pytest

from broker.errors import ProtocolError
from broker.event.site_coverage import CoveredMessages
from broker.event.site_notice import MissingMessages, SiteCoverage, SiteNotice, SiteStatus
from broker.event.stream import StreamPattern
from broker.streams.contract import ITransportContext
from broker.streams.site_statuses import MOST_SITES
from broker.streams.transports import StreamTransports
from tests.streams.recording_transport import Plugin, Services, make

UP = SiteStatus("radar", "c", "connected", "", 5)
DOWN = SiteStatus("radar", "c", "disconnected", "silent", 6, 70)
MISSING = MissingMessages("radar", "c", 7, 1, 2, "lost")
COVERAGE = SiteCoverage("radar", "c", (CoveredMessages("a", 7, 1, 2),))


def radar_and_transports(services: Services) -> tuple[ITransportContext, StreamTransports]:
    plugins = {name: Plugin(name) for name in ("mspaces", "radar", "ferry")}
    transports = make(services, plugins)
    context = plugins["radar"].created[0].context
    assert context is not None
    return context, transports


def found(transports: StreamTransports, pattern: str) -> list[SiteNotice]:
    return transports.find_statuses(StreamPattern.parse(pattern))


def test_notices_go_to_the_streams_of_the_instance() -> None:
    services = Services()
    radar, transports = radar_and_transports(services)
    for notice in (UP, MISSING, DOWN):
        radar.notify(notice)
    assert services.notices == [(each, ["asdi.>"]) for each in (UP, MISSING, DOWN)]
    assert found(transports, "asdi.zbw") == found(transports, ">") == [DOWN]
    assert transports.find_statuses(None) == [DOWN]
    assert found(transports, "boats.a") == []


@pytest.mark.parametrize(
    ("notice", "changes"),
    [
        *((UP, {"stack": name}) for name in ("ferry", "", "x" * 65)),
        *((UP, {"state": state}) for state in ("up", "", 5)),
        *((UP, {"at": -1}), (UP, {"until": 2**63}), (UP, {"reason": "x" * 501})),
        *((UP, {"site": ""}), (MISSING, {"site": None}), (MISSING, {"first": -1})),
        *((MISSING, {"last": 2**64}), (MISSING, {"stack": "ferry"})),
        *((COVERAGE, {"stack": "ferry"}), (COVERAGE, {"site": ""})),
        *((COVERAGE, {"covered": each}) for each in (["x"], COVERAGE.covered * 1_000)),
    ],
)
def test_a_notice_that_is_not_valid_is_refused(notice: SiteNotice, changes: dict[str, Any]) -> None:
    services = Services()
    radar, _ = radar_and_transports(services)
    with pytest.raises((ValueError, ProtocolError)):
        radar.notify(attrs.evolve(notice, **changes))
    assert services.notices == []


def test_the_present_statuses_are_bounded() -> None:
    radar, transports = radar_and_transports(Services())
    for number in range(MOST_SITES + 5):
        radar.notify(attrs.evolve(UP, site=f"s{number}"))
    sites = [each.site for each in found(transports, ">") if isinstance(each, SiteStatus)]
    assert sites == [f"s{number}" for number in range(5, MOST_SITES + 5)]


def test_the_present_coverage_of_a_site_is_joined_and_bounded() -> None:
    radar, transports = radar_and_transports(Services())
    further = CoveredMessages("a", 7, 3, 5, ((4, 4),)), CoveredMessages("b", 1, 1, 1)
    radar.notify(SiteCoverage("radar", "b", ()))
    radar.notify(COVERAGE)
    radar.notify(UP)
    radar.notify(attrs.evolve(COVERAGE, covered=further))
    joined = CoveredMessages("a", 7, 1, 5, ((4, 4),)), further[1]
    assert found(transports, ">") == [
        *(UP, SiteCoverage("radar", "b", ()), SiteCoverage("radar", "c", joined)),
    ]
    for number in range(MOST_SITES + 5):
        radar.notify(attrs.evolve(COVERAGE, site=f"s{number}"))
    assert len(found(transports, ">")) == 1 + MOST_SITES
    radar.fail(RuntimeError("broken"))
    assert found(transports, ">") == []


def test_a_stopped_transport_has_no_statuses_and_notifies_nobody() -> None:
    services = Services()
    radar, transports = radar_and_transports(services)
    radar.notify(UP)
    radar.fail(RuntimeError("broken"))
    radar.notify(DOWN)
    assert services.notices == [(UP, ["asdi.>"])]
    assert found(transports, ">") == []
