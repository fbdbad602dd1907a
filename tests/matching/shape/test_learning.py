"""Learning, generalising and dropping shapes, and types with shapes that do not recur."""

from __future__ import annotations

from collections.abc import Callable

from broker.dtd.dtd import Dtd
from broker.matching.shape.bounds import ShapeBounds
from broker.matching.shape.cache import MAX_TRIES
from broker.matching.shape.shape import Shape
from tests.matching.shape.oracle import CheckedCache

Event = Callable[..., bytes]


def legs(make_event: Event, count: int, status: str = "active", text: str = "x") -> bytes:
    payload = f'<flight><id>U</id>{f"""<leg status="{status}"/>""" * count}'
    payload += f"<remark>{text}</remark></flight>"
    return make_event(payload.encode())


def test_a_shape_is_learnt_at_second_sight(checked: CheckedCache, make_event: Event) -> None:
    assert checked.meet(legs(make_event, 1)) is None
    shape = checked.meet(legs(make_event, 1, text="y"))
    assert shape is not None
    assert checked.meet(legs(make_event, 1, text="z")) is shape
    (found,) = checked.cache.types.values()
    assert (len(found.shapes), found.hits, found.misses, found.learnt) == (1, 1, 2, 1)
    assert not found.is_suspended


def test_many_shapes_are_told_apart(checked: CheckedCache, make_event: Event) -> None:
    shapes = [checked.meet_twice(legs(make_event, n)) for n in range(1, 20)]
    assert None not in shapes
    assert [checked.meet(legs(make_event, n)) for n in range(1, 20)] == shapes


def test_few_variants_of_an_attribute_stay_constants(
    checked: CheckedCache, make_event: Event
) -> None:
    for _ in range(3):
        for status in ("active", "landed", "planned"):
            checked.meet(legs(make_event, 1, status))
    shapes = {checked.meet(legs(make_event, 1, each)) for each in ("active", "landed", "planned")}
    assert len(shapes) == 3
    assert None not in shapes
    assert not checked.recognises(legs(make_event, 1, "unseen"))


def test_an_attribute_with_many_values_becomes_a_slot_and_replaces_its_variants(
    checked: CheckedCache, make_event: Event
) -> None:
    gone: list[Shape] = []
    checked.cache.on_dropped = gone.append
    first = checked.meet_twice(legs(make_event, 1, "s0"))
    for i in range(1, 20):
        checked.meet(legs(make_event, 1, f"s{i}"))
    assert gone[0] is first
    shape = checked.meet(legs(make_event, 1, "unseen"))
    assert shape is not None
    assert len(checked.cache) == 1
    (found,) = checked.cache.types.values()
    assert len(found.slot_attributes) == 1
    assert found.forgotten == len(gone)


def test_varying_attributes_are_slots_in_new_skeletons_from_the_start(
    checked: CheckedCache, make_event: Event
) -> None:
    for i in range(20):
        checked.meet(legs(make_event, 1, f"s{i}"))
    checked.meet_twice(legs(make_event, 2, "one"))
    assert checked.recognises(legs(make_event, 2, "two"))


def test_a_known_skeleton_that_varies_adopts_what_the_type_has_learnt(
    checked: CheckedCache, make_event: Event
) -> None:
    checked.meet_twice(legs(make_event, 2, "one"))
    for i in range(20):
        checked.meet(legs(make_event, 1, f"s{i}"))
    assert checked.recognises(legs(make_event, 2, "one"))
    assert not checked.recognises(legs(make_event, 2, "two"))
    checked.meet(legs(make_event, 2, "two"))
    assert checked.recognises(legs(make_event, 2, "three"))
    assert len(checked.cache) == 2


def test_only_the_most_varied_attributes_become_slots(
    checked: CheckedCache, make_event: Event
) -> None:
    """The remark's text has one value at each position, the status a new one in each document."""

    def document(status: str) -> bytes:
        remarks = "".join(f'<remark text="r{n}"/>' for n in range(12))
        payload = f'<flight><id>U</id><leg status="{status}"/>{remarks}</flight>'
        return make_event(payload.encode())

    for i in range(20):
        checked.meet(document(f"s{i}"))
    shape = checked.meet(document("unseen"))
    assert shape is not None
    assert not checked.recognises(document("unseen").replace(b'"r3"', b'"other"'))


def test_the_least_recently_met_shape_is_dropped_at_the_bound(
    flight_dtd: Dtd, make_event: Event
) -> None:
    for bounds in (ShapeBounds(max_shapes=3), ShapeBounds(max_shapes_of_type=3)):
        checked = CheckedCache(flight_dtd, bounds=bounds)
        gone: list[Shape] = []
        checked.cache.on_dropped = gone.append
        shapes = [checked.meet_twice(legs(make_event, n)) for n in (1, 2, 3)]
        checked.meet(legs(make_event, 1))
        checked.meet_twice(legs(make_event, 4))
        assert gone == [shapes[1]]
        assert len(checked.cache) == 3
        assert checked.recognises(legs(make_event, 1))
        assert not checked.recognises(legs(make_event, 2))


def test_shapes_of_documents_of_one_length_are_told_apart(
    checked: CheckedCache, make_event: Event
) -> None:
    one = make_event(b"<flight><id>1</id><remark>12345</remark></flight>")
    other = make_event(b"<flight><id>1234</id><leg><speed/></leg></flight>")
    assert len(one) == len(other)
    shapes = checked.meet_twice(one), checked.meet_twice(other)
    assert None not in shapes
    assert shapes[0] is not shapes[1]
    for _ in range(3):
        assert (checked.meet(one), checked.meet(other)) == shapes
    assert (checked.meet(other), checked.meet(one)) == shapes[::-1]


def test_memory_is_bounded(flight_dtd: Dtd, make_event: Event) -> None:
    checked = CheckedCache(flight_dtd, bounds=ShapeBounds(max_bytes=200_000))
    for n in range(1, 40):
        checked.meet_twice(legs(make_event, n))
    assert 0 < checked.cache.bytes_held <= 200_000
    assert 0 < len(checked.cache) < 20
    (found,) = checked.cache.types.values()
    assert found.forgotten == found.learnt - len(found.shapes) > 0
    for shape in list(checked.cache._weights):
        checked.cache.drop_shape(shape)
    assert checked.cache.bytes_held == 0
    assert checked.cache._buckets == {}


def test_a_drop_is_reported_once_and_may_be_repeated(
    checked: CheckedCache, make_event: Event
) -> None:
    gone: list[Shape] = []
    checked.cache.on_dropped = gone.append
    shape = checked.meet_twice(legs(make_event, 1))
    assert shape is not None
    checked.cache.drop_shape(shape)
    checked.cache.drop_shape(shape)
    assert gone == [shape]
    assert not checked.recognises(legs(make_event, 1))
    assert checked.meet_twice(legs(make_event, 1)) is not shape
    assert checked.recognises(legs(make_event, 1))


def test_a_shape_behind_too_many_of_its_size_comes_to_the_front_when_learnt_again(
    flight_dtd: Dtd, make_event: Event
) -> None:
    checked = CheckedCache(flight_dtd, bounds=ShapeBounds(max_variants=100))
    statuses = [f"s{i}" for i in range(MAX_TRIES + 4)]
    for status in [*statuses, *statuses]:
        checked.meet(legs(make_event, 1, status))
    # One shape in front, one tried last, and two that are not tried.
    first = legs(make_event, 1, statuses[0])
    assert not checked.recognises(first)
    shape = checked.meet(first)
    assert shape is not None
    assert checked.recognises(first)
    assert len(checked.cache) == len(statuses)


def test_skeletons_and_signatures_are_bounded(flight_dtd: Dtd, make_event: Event) -> None:
    checked = CheckedCache(flight_dtd, bounds=ShapeBounds(max_signatures=5, max_shapes_of_type=4))
    for n in range(1, 30):
        checked.meet_twice(legs(make_event, n))
    (learner,) = checked.cache.types.values()
    assert len(learner._signatures) <= 5
    assert len(learner._skeletons) <= 8
    assert len(checked.cache) <= 4


def test_types_are_bounded(flight_dtd: Dtd, note_dtd: Dtd, make_event: Event) -> None:
    checked = CheckedCache(flight_dtd, note_dtd, bounds=ShapeBounds(max_types=1))
    shape = checked.meet_twice(legs(make_event, 1))
    checked.meet(make_event(b'<note xmlns:x="urn:x"/>', type_name="note"))
    assert shape is not None
    assert set(checked.cache.types) == {note_dtd.reference}
    assert not checked.recognises(legs(make_event, 1))


def distinct_documents(count: int, make_event: Event, start: int = 0) -> list[bytes]:
    """Return valid documents that all have different tags."""
    found = []
    for number in range(start, start + count):
        bits = f"{number:b}"
        inside = "".join("<leg/>" if bit == "1" else "<leg><speed/></leg>" for bit in bits)
        found.append(make_event(f"<flight><id>U</id>{inside}</flight>".encode()))
    return found


BRISK = ShapeBounds(window=16, pause=32, max_pause=64, credit=8, hits_per_credit=4)


def test_a_type_whose_shapes_do_not_recur_is_suspended(flight_dtd: Dtd, make_event: Event) -> None:
    checked = CheckedCache(flight_dtd, bounds=BRISK)
    for document in distinct_documents(20, make_event):
        checked.meet(document)
    (found,) = checked.cache.types.values()
    assert found.is_suspended
    assert found.suspensions == 1
    assert len(found.shapes) == 0
    assert checked.meet_twice(legs(make_event, 1)) is None


def test_it_is_tried_again_after_a_pause_that_grows(flight_dtd: Dtd, make_event: Event) -> None:
    checked = CheckedCache(flight_dtd, bounds=BRISK)
    changes = []
    before = False
    for number, document in enumerate(distinct_documents(600, make_event)):
        checked.meet(document)
        (found,) = checked.cache.types.values()
        if found.is_suspended != before:
            changes.append(number)
            before = found.is_suspended
    lengths = [end - start for start, end in zip(changes, changes[1:], strict=False)]
    assert lengths[:6:2] == [32, 64, 64]
    assert found.misses == 600
    # After the next pause the shapes recur.
    for _ in range(200):
        checked.meet(legs(make_event, 1))
    (found,) = checked.cache.types.values()
    assert not found.is_suspended
    assert found.hits > 50


def test_hits_pay_for_learning(flight_dtd: Dtd, make_event: Event) -> None:
    checked = CheckedCache(
        flight_dtd, bounds=ShapeBounds(window=10_000, credit=4, hits_per_credit=8)
    )
    for n in range(1, 10):
        checked.meet_twice(legs(make_event, n))
    (found,) = checked.cache.types.values()
    assert found.learnt == 4
    assert found.not_learnable == {"credit": 5}
    for _ in range(16):
        checked.meet(legs(make_event, 1))
    for _ in range(16):
        for n in range(5, 10):
            checked.meet(legs(make_event, n))
    (found,) = checked.cache.types.values()
    assert found.learnt > 5


def test_a_suspended_type_does_not_affect_others(
    flight_dtd: Dtd, note_dtd: Dtd, make_event: Event
) -> None:
    checked = CheckedCache(flight_dtd, note_dtd, bounds=BRISK)
    note = make_event(b'<note xmlns:x="urn:x"><line>x</line></note>', type_name="note")
    for document in distinct_documents(100, make_event):
        checked.meet(document)
        checked.meet(note)
    by_type = checked.cache.types
    assert by_type[note_dtd.reference].hits == 98
    assert by_type[flight_dtd.reference].is_suspended


def test_nothing_is_learnt_if_the_tree_differs(
    checked: CheckedCache, flight_dtd: Dtd, make_event: Event
) -> None:
    document, other = legs(make_event, 1), legs(make_event, 1, text="other")
    for _ in range(2):
        shape = checked.cache.learn(document, checked.parsed(other), flight_dtd)
        assert shape is None
    (found,) = checked.cache.types.values()
    assert found.not_learnable == {"unverified": 1}
    assert not checked.recognises(document)
