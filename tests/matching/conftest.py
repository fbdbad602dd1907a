"""Shared DTDs, events and engines for the tests of content routing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from zope.interface import implementer

from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.dtd import Dtd
from broker.dtd.interfaces import IDtdCache
from broker.dtd.reference import DtdReference
from broker.event.envelope import EventType, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.writer import write_event
from broker.matching.contract import IMatcher
from broker.matching.reference_matcher import ReferenceMatcher
from broker.matching.switch import Switch

#: Engines of the contract tests: name -> factory with DTDs and options.
ENGINES: dict[str, Callable[..., IMatcher]] = {"reference": ReferenceMatcher, "switch": Switch}

FLIGHT_DTD = b"""
<!ENTITY % Mspaces.content ", flight?">
<!ENTITY % Mspaces.envelope
         PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">
%Mspaces.envelope;
<!ELEMENT flight (id, leg*, remark*, x:link?)>
<!ATTLIST flight kind (scheduled | charter) "scheduled"
                 xmlns:x CDATA #FIXED "urn:x">
<!ELEMENT id (#PCDATA)>
<!ELEMENT leg (altitude?, speed?)>
<!ATTLIST leg status CDATA #IMPLIED>
<!ELEMENT altitude (#PCDATA)>
<!ELEMENT speed (#PCDATA)>
<!ELEMENT remark (#PCDATA)>
<!ATTLIST remark text CDATA #IMPLIED>
<!ELEMENT x:link EMPTY>
<!ATTLIST x:link href CDATA #REQUIRED>
"""


@implementer(IDtdCache)
class KnownDtds:  # type: ignore[misc]
    """A DTD cache that fetches nothing. Engines call only `get`."""

    def __init__(self, *dtds: Dtd) -> None:
        self.by_reference = {dtd.reference: dtd for dtd in dtds}

    def get(self, reference: DtdReference) -> Dtd | None:
        return self.by_reference.get(reference)


def load_dtd(type_name: str, version: str, text: bytes) -> Dtd:
    catalogue = Catalogue.load(shipped_folder())
    return Dtd.load(DtdReference(type_name, version), text, catalogue.read)


@pytest.fixture(scope="session")
def flight_dtd() -> Dtd:
    return load_dtd("flight", "1.0", FLIGHT_DTD)


@pytest.fixture
def dtds(flight_dtd: Dtd) -> KnownDtds:
    """Flight DTDs in two versions; in 2.0 the default of `kind` is `charter`."""
    newer = FLIGHT_DTD.replace(b'"scheduled"', b'"charter"')
    return KnownDtds(flight_dtd, load_dtd("flight", "2.0", newer))


@pytest.fixture(scope="session")
def ticking() -> Callable[[], float]:
    """A clock that stands still, for engines whose budget is not tested."""
    return lambda: 0.0


@pytest.fixture(params=sorted(ENGINES))
def make_engine(
    request: pytest.FixtureRequest, dtds: KnownDtds, ticking: Callable[[], float]
) -> Callable[..., Any]:
    """Factory of an engine under contract, with options over the defaults."""

    def make(**options: Any) -> Any:
        return ENGINES[request.param](dtds, **{"clock": ticking, **options})

    return make


@pytest.fixture
def engine(make_engine: Callable[..., Any]) -> Iterator[Any]:
    yield make_engine()


FLIGHT = (
    b'<flight><id>UAL1021</id><leg status="active"><altitude>290</altitude>'
    b"<speed>512</speed></leg></flight>"
)


def event(
    payload: bytes | None = FLIGHT,
    *,
    stream: str = "asdi.zbw",
    type_name: str = "flight",
    version: str = "1.0",
    security_level: SecurityLevel = SecurityLevel.MED,
    liveness: Liveness = Liveness.LIVE,
    sequence_number: int = 7,
    **more: Any,
) -> bytes:
    return write_event(
        EventId("pilot", 1700000000123, sequence_number, 1699),
        stream,
        EventType(type_name, version, security_level=security_level, liveness=liveness),
        payload,
        **more,
    )


@pytest.fixture(scope="session")
def make_event() -> Callable[..., bytes]:
    """Factory of flight events."""
    return event
