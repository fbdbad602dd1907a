"""What is never learnt, and never recognised by what was learnt from a plain document."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.dtd.dtd import Dtd
from broker.matching.shape.bounds import ShapeBounds
from tests.matching.shape.oracle import CheckedCache

Event = Callable[..., bytes]

#: A valid change to a document, and the reason that it has no shape.
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
def test_markup_that_only_the_parser_understands_is_left_to_it(
    judged: CheckedCache, make_event: Event, name: str
) -> None:
    plain = make_event(PAYLOAD)
    old, new = MARKUP[name]
    document = plain.replace(old, new, 1)
    assert document != plain
    assert judged.meet_twice(document) is None
    assert judged.meet_twice(document) is None
    assert judged.accepted == 4
    (statistics,) = judged.cache.statistics().values()
    assert statistics.not_learnable.keys() == {"markup"}
    assert judged.meet_twice(plain) is not None
    assert not judged.recognises(document)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b' encoding="UTF-8"', b' encoding="US-ASCII"'),
        (b' encoding="UTF-8"', b" encoding='ascii'"),
    ],
)
def test_a_declared_encoding_other_than_utf8_is_left_to_the_parser(
    judged: CheckedCache, make_event: Event, old: bytes, new: bytes
) -> None:
    document = make_event().replace(old, new)
    assert judged.meet_twice(document) is None
    assert judged.accepted == 2
    (statistics,) = judged.cache.statistics().values()
    assert statistics.not_learnable == {"encoding": 2}


def test_a_pointer_does_not_pass_for_a_declared_encoding(
    judged: CheckedCache, make_event: Event
) -> None:
    document = make_event(system_id="utf-8").replace(b"UTF-8", b"US-ASCII")
    assert judged.meet_twice(document) is None
    assert judged.meet_twice(document.replace(b"UAL1021", "é".encode())) is None


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
def test_spellings_of_the_same_are_shapes_of_their_own(
    judged: CheckedCache, make_event: Event, old: bytes, new: bytes
) -> None:
    plain = make_event(PAYLOAD)
    other = new + plain if not old else plain.replace(old, new, 1)
    assert other != plain
    first = judged.meet_twice(plain)
    assert not judged.recognises(other)
    second = judged.meet_twice(other)
    assert first is not None
    assert second is not None
    assert first is not second


@pytest.mark.parametrize("bad", [bytes([n]) for n in range(32) if n not in (9, 10, 13)])
def test_control_characters_are_not_recognised(
    judged: CheckedCache, make_event: Event, bad: bytes
) -> None:
    assert judged.meet_twice(make_event(PAYLOAD)) is not None
    document = make_event(PAYLOAD).replace(b">text<", b">te" + bad + b"xt<")
    assert not judged.recognises(document)
    assert judged.meet(document) is None


def test_bounds_on_slots_and_constants(note_dtd: Dtd, make_event: Event) -> None:
    def note(lines: int) -> bytes:
        payload = b'<note xmlns:x="urn:x">%b</note>' % (b"<line>x</line>" * lines)
        return make_event(payload, type_name="note")

    judged = CheckedCache(note_dtd, bounds=ShapeBounds(max_slots=16, max_constant_bytes=2000))
    assert judged.meet_twice(note(10)) is not None
    assert judged.meet_twice(note(11)) is None
    assert judged.meet_twice(note(500)) is None
    assert judged.meet(note(500)) is None
    (statistics,) = judged.cache.statistics().values()
    assert statistics.not_learnable == {"slots": 1, "constants": 2}


def test_a_type_is_learnt_again_when_its_dtd_is_another(
    flight_dtd: Dtd, judged: CheckedCache, make_event: Event
) -> None:
    shape = judged.meet_twice(make_event(PAYLOAD))
    assert shape is not None
    newer = Dtd.load(
        flight_dtd.reference,
        flight_dtd.text.replace(b"<!ELEMENT id (#PCDATA)>", b"<!ELEMENT id (#PCDATA|leg)*>"),
        lambda _public, _system: None,
    )
    assert newer.content_hash != flight_dtd.content_hash
    gone: list[object] = []
    judged.cache.on_dropped = gone.append
    root = judged.parsed(make_event(PAYLOAD))
    assert judged.cache.learn(make_event(PAYLOAD), root, newer.reference, newer) is None
    assert gone == [shape]
    assert not judged.recognises(make_event(PAYLOAD))
