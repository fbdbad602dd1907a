"""Headers read from slots equal those read from a tree, and so do the refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.errors import BadEnvelope
from broker.event.envelope import Bundle, EventLinkage, Liveness, SecurityLevel
from broker.matching.shape import header_fields
from tests.matching.shape.oracle import CheckedCache

Event = Callable[..., bytes]

FIELDS = {
    b"StreamId": [b"", b"a..b", b"a.b", b" a", b"a\n", b"x" * 65, b"\xc3\xa9", b"."],
    b"ClientId": [b"-", b"me@here", b"me ", b"x" * 65, b"\xc3\xa9"],
    b"TimeStamp": [b"0", b"00", b"+1", b"-1", b"1_0", b" 1", b"1\n", b"1.0", b"x", b"9" * 19]
    + [b"9223372036854775807", b"9223372036854775808", b"0" * 20, b"1" * 5000, b"\xd9\xa1"],
    b"SequenceNumber": [b"0", b"1", b"000", b"+1", b"1_0", b"9" * 18, b"9" * 19, b"9" * 20, b"\t1"]
    + [b"9223372036854775807", b"9223372036854775808", b"7" * 5000, b"\xc2\xb2"],
    b"Incarnation": [b"0", b"+1", b"1_0", b"1 ", b"9" * 19, b"9223372036854775807", b"1" * 5000],
}


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_each_field_is_checked_as_the_reference_does(
    checked: CheckedCache, make_event: Event, name: bytes
) -> None:
    document = make_event()
    assert checked.meet_twice(document) is not None
    assert checked.meet(document.replace(b"pilot", "pilot\u00e9".encode())) is None
    start = document.index(b"<Mspaces:" + name + b">") + len(name) + 10
    end = document.index(b"<", start)
    for value in FIELDS[name]:
        changed = document[:start] + value + document[end:]
        checked.meet(changed)
        checked.meet(changed)
        # After learning non-ASCII values, the checks of slots must refuse it.
        wide = changed.replace(b"UAL1021", "é".encode())
        checked.meet(wide)
        checked.meet(wide)
    assert checked.recognised > 0


def test_a_wrong_value_is_refused_by_the_header_alone(
    checked: CheckedCache, make_event: Event
) -> None:
    document = make_event()
    checked.meet_twice(document)
    found = checked.recognise(document.replace(b">7<", b">0<"))
    assert found is not None
    with pytest.raises(BadEnvelope, match="SequenceNumber"):
        found[0].read_header(found[1])


@pytest.mark.parametrize("level", list(SecurityLevel))
@pytest.mark.parametrize("liveness", list(Liveness))
def test_level_and_liveness_are_those_of_the_shape(
    checked: CheckedCache, make_event: Event, level: SecurityLevel, liveness: Liveness
) -> None:
    document = make_event(security_level=level, liveness=liveness)
    shape = checked.meet_twice(document)
    assert shape is not None
    values = shape.extract_values(document)
    assert values is not None
    header = shape.read_header(values)
    assert (header.security_level, header.liveness) == (level, liveness)


def test_bundles_are_checked_for_each_event(checked: CheckedCache, make_event: Event) -> None:
    def bundled(first: str, second: str) -> bytes:
        linkage = EventLinkage((Bundle(first, 1), Bundle(second, 2)))
        document: bytes = make_event(linkage=linkage)
        return document

    shape = checked.meet_twice(bundled("a", "b"))
    assert shape is not None
    assert len(shape.fields.bundle_ids) == len(shape.fields.bundle_numbers) == 2
    assert checked.meet(bundled("c", "d")) is shape
    assert checked.meet(bundled("c", "c")) is None
    wrong = bundled("c", "d").replace(b"BundleNumber>2<", b"BundleNumber>x<")
    assert checked.recognises(wrong)
    assert checked.meet(wrong) is None


def test_stored_names_are_bounded(
    checked: CheckedCache, make_event: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(header_fields, "MAX_CACHED_FIELDS", 4)
    shape = checked.meet_twice(make_event())
    for i in range(20):
        assert checked.meet(make_event(stream=f"a.{i % 7}")) is shape
    readers = checked.cache._readers
    assert 0 < len(readers._streams) <= 4


def test_very_long_numbers_are_refused(checked: CheckedCache, make_event: Event) -> None:
    checked.meet_twice(make_event())
    found = checked.recognise(make_event().replace(b">7<", b">" + b"7" * 200_000 + b"<"))
    assert found is not None
    with pytest.raises(BadEnvelope, match="SequenceNumber"):
        found[0].read_header(found[1])
