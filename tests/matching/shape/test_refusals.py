"""Documents that are never learnt, and never recognised by a shape of a plain document."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.dtd.dtd import Dtd
from broker.matching.shape.bounds import ShapeBounds
from tests.matching.shape.oracle import CheckedCache

Event = Callable[..., bytes]

#: A valid change to a document that excludes a shape.
MARKUP = {
    "comment": (b"<remark>", b"<!--c--><remark>"),
    "comment within a text": (b">text<", b">te<!--c-->xt<"),
    "instruction": (b"<remark>", b"<?pi?><remark>"),
    "instruction behind the root": (b"</Mspaces:Event>", b"</Mspaces:Event><?pi?>"),
    "comment before the root": (b"<Mspaces:Event ", b"<!--c--><Mspaces:Event "),
    "cdata": (b">text<", b"><![CDATA[text]]><"),
    "reference": (b">text<", b">t&amp;t<"),
    "character reference": (b">text<", b">t&#120;t<"),
    "reference in an attribute": (b'"said"', b'"&lt;"'),
    "carriage return": (b">text<", b">te\r\nxt<"),
    "carriage return in a tag": (b"<remark ", b"<remark\r"),
    "single quotes": (b'"said"', b"'said'"),
    "greater-than in a text": (b">text<", b">te>xt<"),
    "greater-than in an attribute": (b'"said"', b'"sa>id"'),
    "quotation mark in a text": (b">text<", b'>te"xt<'),
    "tab in an attribute": (b'"said"', b'"sa\tid"'),
    "line break in an attribute": (b'"said"', b'"sa\nid"'),
}
PAYLOAD = b'<flight><id>U1</id><remark>text</remark><remark text="said">x</remark></flight>'


@pytest.mark.parametrize("name", sorted(MARKUP))
def test_special_markup_is_left_to_the_parser(
    checked: CheckedCache, make_event: Event, name: str
) -> None:
    plain = make_event(PAYLOAD)
    old, new = MARKUP[name]
    document = plain.replace(old, new, 1)
    assert document != plain
    assert checked.meet_twice(document) is None
    assert checked.meet_twice(document) is None
    assert checked.accepted == 4
    (statistics,) = checked.cache.types.values()
    assert statistics.not_learnable.keys() == {"markup"}
    assert checked.meet_twice(plain) is not None
    assert not checked.recognises(document)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b' encoding="UTF-8"', b' encoding="US-ASCII"'),
        (b' encoding="UTF-8"', b" encoding='ascii'"),
    ],
)
def test_a_declared_encoding_other_than_utf8_is_left_to_the_parser(
    checked: CheckedCache, make_event: Event, old: bytes, new: bytes
) -> None:
    document = make_event().replace(old, new)
    assert checked.meet_twice(document) is None
    assert checked.accepted == 2
    (statistics,) = checked.cache.types.values()
    assert statistics.not_learnable == {"encoding": 2}


def test_a_pointer_is_not_read_as_a_declared_encoding(
    checked: CheckedCache, make_event: Event
) -> None:
    document = make_event(system_id="utf-8").replace(b"UTF-8", b"US-ASCII")
    assert checked.meet_twice(document) is None
    assert checked.meet_twice(document.replace(b"UAL1021", "é".encode())) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"", b"\xef\xbb\xbf"),
        (b'encoding="UTF-8"', b'encoding="utf-8"'),
        (b'encoding="UTF-8"', b"encoding='utf-8'"),
        (b'encoding="UTF-8"', b""),
        (b'encoding="UTF-8"', b'encoding="UTF-8" standalone="yes"'),
        (b"?>\n", b"?>"),
        (b"xmlbroker.example", b"mirror.example"),
        (b"</Mspaces:Event>", b"</Mspaces:Event>\n"),
        (b"<remark ", b"<remark\n\t"),
        (b"</id>", b"</id >"),
    ],
)
def test_different_spellings_have_different_shapes(
    checked: CheckedCache, make_event: Event, old: bytes, new: bytes
) -> None:
    plain = make_event(PAYLOAD)
    other = new + plain if not old else plain.replace(old, new, 1)
    assert other != plain
    first = checked.meet_twice(plain)
    assert not checked.recognises(other)
    second = checked.meet_twice(other)
    assert first is not None
    assert second is not None
    assert first is not second


@pytest.mark.parametrize("bad", [bytes([n]) for n in range(32) if n not in (9, 10, 13)])
def test_control_characters_are_not_recognised(
    checked: CheckedCache, make_event: Event, bad: bytes
) -> None:
    assert checked.meet_twice(make_event(PAYLOAD)) is not None
    document = make_event(PAYLOAD).replace(b">text<", b">te" + bad + b"xt<")
    assert not checked.recognises(document)
    assert checked.meet(document) is None


def test_bounds_on_slots_and_constants(note_dtd: Dtd, make_event: Event) -> None:
    def note(lines: int) -> bytes:
        payload = b'<note xmlns:x="urn:x">%b</note>' % (b"<line>x</line>" * lines)
        return make_event(payload, type_name="note")

    checked = CheckedCache(note_dtd, bounds=ShapeBounds(max_slots=16, max_constant_bytes=2000))
    assert checked.meet_twice(note(10)) is not None
    assert checked.meet_twice(note(11)) is None
    assert checked.meet_twice(note(500)) is None
    assert checked.meet(note(500)) is None
    (statistics,) = checked.cache.types.values()
    assert statistics.not_learnable == {"slots": 1, "constants": 2}


def test_a_type_is_learnt_again_with_another_dtd(
    flight_dtd: Dtd, checked: CheckedCache, make_event: Event
) -> None:
    shape = checked.meet_twice(make_event(PAYLOAD))
    assert shape is not None
    newer = Dtd.load(
        flight_dtd.reference,
        flight_dtd.text.replace(b"<!ELEMENT id (#PCDATA)>", b"<!ELEMENT id (#PCDATA|leg)*>"),
        lambda _public, _system: None,
    )
    assert newer.content_hash != flight_dtd.content_hash
    gone: list[object] = []
    checked.cache.on_dropped = gone.append
    root = checked.parsed(make_event(PAYLOAD))
    assert checked.cache.learn(make_event(PAYLOAD), root, newer) is None
    assert gone == [shape]
    assert not checked.recognises(make_event(PAYLOAD))
