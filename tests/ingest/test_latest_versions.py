from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.reference import DtdReference
from broker.event.envelope import EventType, Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.writer import write_event
from broker.ingest.latest_versions import LatestVersions
from broker.matching.contract import Accepted, AcceptedWithLatestVersion, accepted_class

EVENT_ID = EventId("c", 1, 1, 1)
HEADER = Header(EVENT_ID, "s", "flight", "1.0", SecurityLevel.MED, Liveness.LIVE)
NAMED = b"<Mspaces:LatestVersionNum>2.0</Mspaces:LatestVersionNum>"
VERSION = b"<Mspaces:VersionNum>1.0</Mspaces:VersionNum>"


class _Dtds:
    def __init__(self) -> None:
        self.looked_up: list[DtdReference] = []

    def lookup(self, reference: DtdReference, _: FetchHint) -> Deferred[Any]:
        self.looked_up.append(reference)
        return Deferred()


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (NAMED, True),
        (b"<Mspaces:LatestVersionNum > <!-- 9.0 -->2.0\n</Mspaces:LatestVersionNum >", True),
        (b"<!--" + NAMED + b"-->", False),
        (b"<?x " + NAMED + b"?>", False),
        (NAMED.replace(b"2.0", b"0.9"), False),
        (NAMED.replace(b"2.0", b"new"), False),
    ],
)
def test_only_the_element_names_a_newer_version(said: bytes, found: bool) -> None:
    document = write_event(EVENT_ID, "s", EventType("flight", "1.0"), b"<flight/>")
    document = document.replace(VERSION, VERSION + said)
    assert issubclass(accepted_class(document), AcceptedWithLatestVersion if found else Accepted)
    dtds = _Dtds()
    LatestVersions(dtds).look_up_named(document, HEADER)  # type: ignore[arg-type]
    assert dtds.looked_up == ([DtdReference("flight", "2.0")] if found else [])
