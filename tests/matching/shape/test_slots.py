"""Values that are slots, and values that stay constants."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.dtd.dtd import Dtd
from broker.matching.shape.bounds import ShapeBounds
from broker.matching.shape.tree import Node, NodeKind
from tests.matching.shape.oracle import CheckedCache, of_shape

Event = Callable[..., bytes]
ENVELOPE_SLOTS = 6


def note(make_event: Event, inside: str, attributes: str = "", **more: object) -> bytes:
    payload = f'<note xmlns:x="urn:x"{attributes}>{inside}</note>'.encode()
    return make_event(payload, type_name="note", **more)


def generalised(checked: CheckedCache, documents: list[bytes]) -> None:
    for document in documents:
        checked.meet(document)


def test_texts_of_leaves_are_slots_and_the_envelope_has_six(
    checked: CheckedCache, make_event: Event
) -> None:
    document = note(make_event, "<line>one</line><line> </line><any>two</any>")
    shape = checked.meet_twice(document)
    assert shape is not None
    values = shape.extract_values(document)
    assert values is not None
    assert values[:5] == (b"asdi.zbw", b"pilot", b"1700000000123", b"7", b"1699")
    assert values[ENVELOPE_SLOTS:] == (b"one", b" ", b"two")
    assert checked.recognises(document.replace(b"two", b"t'was\t\n3%b%%;]]="))
    other = note(make_event, "<line>x</line><line>y</line><any>z</any>", stream="a.b")
    assert checked.meet(other) is shape


def test_the_version_is_a_constant_since_it_must_be_the_doctypes(
    checked: CheckedCache, make_event: Event
) -> None:
    document = note(make_event, "")
    shape = checked.meet_twice(document)
    assert shape is not None
    assert shape.slot_count == ENVELOPE_SLOTS
    assert shape.fields.version_num == b"1.0"
    assert not checked.recognises(
        document.replace(b"<Mspaces:VersionNum>1.0", b"<Mspaces:VersionNum>2.0")
    )


def test_fields_locate_the_header(checked: CheckedCache, make_event: Event) -> None:
    shape = checked.meet_twice(note(make_event, ""))
    assert shape is not None
    fields = shape.fields
    assert (fields.stream, fields.client_id, fields.timestamp) == (0, 1, 2)
    assert (fields.sequence_number, fields.incarnation) == (3, 4)
    assert (fields.security_level, fields.liveness) == (b"med", b"live")


@pytest.mark.parametrize(
    "inside",
    [
        "<mixed>text<line/>more</mixed>",
        "<line>a</line> <line>b</line>",
        "<any>text<line/></any>",
    ],
)
def test_text_beside_elements_is_constant(
    checked: CheckedCache, make_event: Event, inside: str
) -> None:
    shape = checked.meet_twice(note(make_event, inside))
    assert shape is not None
    assert shape.slot_count == ENVELOPE_SLOTS + inside.count("</line>")
    for old, new in (("text", "word"), ("> <", ">\n<")):
        if old in inside:
            assert not checked.recognises(note(make_event, inside.replace(old, new)))


def test_an_empty_and_a_filled_leaf_are_different_shapes(
    checked: CheckedCache, make_event: Event
) -> None:
    filled = checked.meet_twice(note(make_event, "<line>x</line>"))
    assert not checked.recognises(note(make_event, "<line></line>"))
    empty = checked.meet_twice(note(make_event, "<line></line>"))
    short = checked.meet_twice(note(make_event, "<line/>"))
    assert len({filled, empty, short}) == 3
    assert not checked.recognises(note(make_event, "<line/><line/>"))


#: Attributes of `line`; True if they become slots when they vary.
ATTRIBUTES = [
    ("free", True),
    ("other", True),
    ("x:free", True),
    ("x:given", True),
    ("xml:lang", False),
    ("token", False),
]


@pytest.mark.parametrize(("name", "varies"), ATTRIBUTES)
def test_attributes_that_may_hold_anything_become_slots_when_they_vary(
    checked: CheckedCache, make_event: Event, name: str, varies: bool
) -> None:
    generalised(checked, [note(make_event, f'<line {name}="v{i}">x</line>') for i in range(30)])
    document = note(make_event, f'<line {name}="unseen">x</line>')
    assert checked.recognises(document) == varies
    assert checked.recognises(note(make_event, f'<line {name}="">x</line>')) == varies
    if varies:
        shape = checked.meet(document)
        assert shape is not None
        assert shape.slot_count == ENVELOPE_SLOTS + 2


@pytest.mark.parametrize(
    "attributes",
    [' fixed="so"', ' choice="a"', ' choice="b"'],
)
def test_fixed_and_enumerated_attributes_are_constants(
    checked: CheckedCache, make_event: Event, attributes: str
) -> None:
    shape = checked.meet_twice(note(make_event, f"<line{attributes}>x</line>"))
    assert shape is not None
    for other in (' fixed="to"', ' choice="c"', ' choice="a "'):
        if other != attributes:
            assert not checked.recognises(note(make_event, f"<line{other}>x</line>"))


def test_ids_and_references_to_them_are_constants(checked: CheckedCache, make_event: Event) -> None:
    for i in range(20):
        checked.meet(note(make_event, "", f' key="k{i}" ref="k{i}"'))
    assert not checked.recognises(note(make_event, "", ' key="k99" ref="k99"'))
    assert not checked.recognises(note(make_event, "", ' key="k1" ref="k2"'))


def test_namespace_declarations_are_constants(checked: CheckedCache, make_event: Event) -> None:
    for i in range(30):
        checked.meet(note(make_event, f'<far xmlns:y="urn:{i}" free="a{i}">x</far>'))
    shape = checked.meet_twice(note(make_event, '<far xmlns:y="urn:1" free="n">x</far>'))
    assert shape is not None
    assert not checked.recognises(note(make_event, '<far xmlns:y="urn:77" free="n">x</far>'))


def test_an_element_declared_without_its_prefix_only_is_not_learnt(
    checked: CheckedCache, make_event: Event
) -> None:
    """libxml2 validates `y:far` as `far`."""
    document = note(make_event, '<any><y:far xmlns:y="urn:y">x</y:far></any>')
    assert checked.meet_twice(document) is None
    assert checked.accepted == 2
    (statistics,) = checked.cache.types.values()
    assert statistics.not_learnable == {"undeclared": 1}


def test_prefixes_and_namespaces_are_in_the_tree(checked: CheckedCache, make_event: Event) -> None:
    shape = checked.meet_twice(note(make_event, '<x:far free="1">x</x:far><line x:free="v"/>'))
    assert shape is not None
    assert shape.payload is not None
    (inside,) = shape.payload.children
    far, line = inside.children
    assert (far.namespace, far.local, far.prefix) == ("urn:x", "far", "x")
    named = {each.local: each for each in line.attributes}
    assert (named["given"].namespace, named["given"].prefix) == ("urn:x", "x")
    assert named["given"].value == b"<given>"
    assert named["choice"].value == b"a"


def test_the_trees_of_event_and_payload_are_two(checked: CheckedCache, make_event: Event) -> None:
    shape = checked.meet_twice(note(make_event, "<line>x</line>"))
    assert shape is not None
    assert shape.payload is not None
    assert shape.tree.kind is shape.payload.kind is NodeKind.ROOT

    def nodes(node: Node) -> set[int]:
        below = [nodes(each) for each in (*node.attributes, *node.children)]
        return {id(node)}.union(*below)

    assert nodes(shape.tree).isdisjoint(nodes(shape.payload))
    assert of_shape(shape.payload, [b"v"] * shape.slot_count)[3][0][3][0][3] == ["v"]


def test_an_event_without_payload_has_a_shape(checked: CheckedCache, make_event: Event) -> None:
    shape = checked.meet_twice(make_event(None))
    assert shape is not None
    assert shape.payload is None


def test_beyond_ascii_takes_an_expression_of_its_own(
    checked: CheckedCache, make_event: Event
) -> None:
    plain, wide = note(make_event, "<line>x</line>"), note(make_event, "<line>é\u2028\x85</line>")
    shape = checked.meet_twice(plain)
    assert not checked.recognises(wide)
    assert checked.meet(wide) is shape
    assert checked.recognises(wide)
    assert checked.recognises(wide.replace("é".encode(), "\x7f\U0001f680\ufffd".encode()))
    for bad in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbf\xbe", b"\xef\xbf\xbf", b"\xc0\xaf"):
        assert not checked.recognises(wide.replace("é".encode(), bad)), bad
        assert checked.meet(wide.replace("é".encode(), bad)) is None


def test_constants_beyond_ascii_are_constants(checked: CheckedCache, make_event: Event) -> None:
    document = note(make_event, "<mixed>é<line>x</line></mixed>")
    shape = checked.meet_twice(document)
    assert shape is not None
    assert checked.recognises(document.replace(b">x<", b">y<"))
    assert not checked.recognises(document.replace("é".encode(), "è".encode()))
    assert checked.meet(document.replace(b">x<", "\u00fc".encode().join([b">", b"<"]))) is shape


def test_documents_over_the_bound_are_not_of_a_shape(note_dtd: Dtd, make_event: Event) -> None:
    checked = CheckedCache(note_dtd, bounds=ShapeBounds(max_document_bytes=2000))
    assert checked.meet_twice(note(make_event, "<line>x</line>")) is not None
    length = len(note(make_event, "<line></line>"))
    assert checked.recognises(note(make_event, f"<line>{'x' * (2000 - length)}</line>"))
    assert not checked.recognises(note(make_event, f"<line>{'x' * (2001 - length)}</line>"))
    assert checked.meet(note(make_event, f"<line>{'x' * (2001 - length)}</line>")) is None
    (statistics,) = checked.cache.types.values()
    assert statistics.not_learnable == {"size": 1}


def test_one_document_compiles_a_part_of_a_long_expression(
    checked: CheckedCache, make_event: Event
) -> None:
    lines = 3 * ShapeBounds().max_slots_compiled

    def made(text: str) -> bytes:
        return note(make_event, f"<line>{text}</line>" * lines)

    # The first one leaves its signature. Each of the next four compiles a part.
    shapes = [checked.meet(made(str(number))) for number in range(7)]
    assert shapes[:4] == [None] * 4
    assert len({*shapes[4:]}) == 1 and None not in shapes[4:]
    assert checked.recognised == 2
    # Texts beyond ASCII have an expression of their own.
    beyond = [checked.meet(made("é" * number)) for number in range(1, 6)]
    assert beyond[:3] == [None] * 3
    assert beyond[3:] == shapes[5:]


def test_a_document_of_too_many_tags_is_not_cut(checked: CheckedCache, make_event: Event) -> None:
    document = note(make_event, "<any/>" * ShapeBounds().max_tags)
    assert checked.meet_twice(document) is None
    (statistics,) = checked.cache.types.values()
    assert statistics.not_learnable == {"tags": 2}
