"""Checks of envelope fields given as text; test_bad_input.py checks whole documents."""

from __future__ import annotations

import pytest

from broker.dtd.reference import DtdReference
from broker.errors import BadEnvelope, from_wire
from broker.event.envelope import Liveness, SecurityLevel
from broker.matching.envelope import check_bundles, parse_header

GOOD = {
    "stream": "asdi.zbw",
    "client_id": "pilot",
    "timestamp": "0",
    "sequence_number": "1",
    "incarnation": "9223372036854775807",
    "version_num": "1.0",
    "security_level": "high",
    "liveness": "recovery",
}
FLIGHT = DtdReference("flight", "1.0")


def test_valid_fields_make_a_header() -> None:
    header = parse_header(**GOOD, reference=FLIGHT)
    assert header.event_id.incarnation == 2**63 - 1
    assert header.event_id.sequence_number == 1
    assert (header.type_name, header.version) == ("flight", "1.0")
    assert header.security_level is SecurityLevel.HIGH
    assert header.liveness is Liveness.RECOVERY


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("stream", "a..b"),
        ("stream", "a/b"),
        ("stream", "*"),
        ("client_id", "-x"),
        ("timestamp", "1.5"),
        ("timestamp", "\u00b2"),
        ("sequence_number", "0"),
        ("sequence_number", "00000000000000000001"),
        ("incarnation", "9223372036854775808"),
        ("version_num", "1.1"),
        ("security_level", "top"),
        ("liveness", "dead"),
    ],
)
def test_invalid_field_is_refused(field: str, wrong: str) -> None:
    with pytest.raises(BadEnvelope, match=r"^Mspaces:\w+: ") as caught:
        parse_header(**{**GOOD, field: wrong}, reference=FLIGHT)
    assert type(from_wire(caught.value.to_wire())) is BadEnvelope


def test_bundles_are_checked() -> None:
    check_bundles([], [])
    check_bundles(["a", "b"], ["1", "1"])
    with pytest.raises(BadEnvelope, match="BundleNumber"):
        check_bundles(["a"], ["-1"])
    with pytest.raises(BadEnvelope, match="BundleId"):
        check_bundles(["a", "a"], ["1", "2"])
