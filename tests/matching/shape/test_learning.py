"""When a shape is learnt, generalised, forgotten; and types whose shapes do not recur."""

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


def test_the_second_sight_learns(judged: CheckedCache, make_event: Event) -> None:
    assert judged.meet(legs(make_event, 1)) is None
    shape = judged.meet(legs(make_event, 1, text="y"))
    assert shape is not None
    assert judged.meet(legs(make_event, 1, text="z")) is shape
    (found,) = judged.cache.statistics().values()
    assert (found.shapes, found.hits, found.misses, found.learnt) == (1, 1, 2, 1)
    assert not found.suspended


def test_many_shapes_are_told_apart(judged: CheckedCache, make_event: Event) -> None:
    shapes = [judged.meet_twice(legs(make_event, n)) for n in range(1, 20)]
    assert None not in shapes
    assert [judged.meet(legs(make_event, n)) for n in range(1, 20)] == shapes


def test_few_variants_of_an_attribute_stay_constants(
    judged: CheckedCache, make_event: Event
) -> None:
    for _ in range(3):
        for status in ("active", "landed", "planned"):
            judged.meet(legs(make_event, 1, status))
    shapes = {judged.meet(legs(make_event, 1, each)) for each in ("active", "landed", "planned")}
    assert len(shapes) == 3
    assert None not in shapes
    assert not judged.recognises(legs(make_event, 1, "unseen"))


def test_an_attribute_with_many_values_becomes_a_slot_and_replaces_its_variants(
    judged: CheckedCache, make_event: Event
) -> None:
    gone: list[Shape] = []
    judged.cache.on_dropped = gone.append
    first = judged.meet_twice(legs(make_event, 1, "s0"))
    for i in range(1, 20):
        judged.meet(legs(make_event, 1, f"s{i}"))
    assert gone[0] is first
    shape = judged.meet(legs(make_event, 1, "unseen"))
    assert shape is not None
    assert len(judged.cache) == 1
    (found,) = judged.cache.statistics().values()
    assert found.slot_attributes == 1
    assert found.forgotten == len(gone)


def test_what_varied_once_is_a_slot_in_new_skeletons_from_the_start(
    judged: CheckedCache, make_event: Event
) -> None:
    for i in range(20):
        judged.meet(legs(make_event, 1, f"s{i}"))
    judged.meet_twice(legs(make_event, 2, "one"))
    assert judged.recognises(legs(make_event, 2, "two"))


def test_a_known_skeleton_that_varies_adopts_what_the_type_has_learnt(
    judged: CheckedCache, make_event: Event
) -> None:
    judged.meet_twice(legs(make_event, 2, "one"))
    for i in range(20):
        judged.meet(legs(make_event, 1, f"s{i}"))
    assert judged.recognises(legs(make_event, 2, "one"))
    assert not judged.recognises(legs(make_event, 2, "two"))
    judged.meet(legs(make_event, 2, "two"))
    assert judged.recognises(legs(make_event, 2, "three"))
    assert len(judged.cache) == 2


def test_only_what_varies_most_becomes_a_slot(judged: CheckedCache, make_event: Event) -> None:
    """The remark's text has one value at each of its places, the status a new one each time."""

    def document(status: str) -> bytes:
        remarks = "".join(f'<remark text="r{n}"/>' for n in range(12))
        payload = f'<flight><id>U</id><leg status="{status}"/>{remarks}</flight>'
        return make_event(payload.encode())

    for i in range(20):
        judged.meet(document(f"s{i}"))
    shape = judged.meet(document("unseen"))
    assert shape is not None
    assert not judged.recognises(document("unseen").replace(b'"r3"', b'"other"'))


def test_shapes_are_bounded_and_the_least_recently_met_goes(
    flight_dtd: Dtd, make_event: Event
) -> None:
    for bounds in (ShapeBounds(max_shapes=3), ShapeBounds(max_shapes_of_type=3)):
        judged = CheckedCache(flight_dtd, bounds=bounds)
        gone: list[Shape] = []
        judged.cache.on_dropped = gone.append
        shapes = [judged.meet_twice(legs(make_event, n)) for n in (1, 2, 3)]
        judged.meet(legs(make_event, 1))
        judged.meet_twice(legs(make_event, 4))
        assert gone == [shapes[1]]
        assert len(judged.cache) == 3
        assert judged.recognises(legs(make_event, 1))
        assert not judged.recognises(legs(make_event, 2))


def test_shapes_of_documents_of_one_length_are_told_apart(
    judged: CheckedCache, make_event: Event
) -> None:
    one = make_event(b"<flight><id>1</id><remark>12345</remark></flight>")
    other = make_event(b"<flight><id>1234</id><leg><speed/></leg></flight>")
    assert len(one) == len(other)
    shapes = judged.meet_twice(one), judged.meet_twice(other)
    assert None not in shapes
    assert shapes[0] is not shapes[1]
    for _ in range(3):
        assert (judged.meet(one), judged.meet(other)) == shapes
    assert (judged.meet(other), judged.meet(one)) == shapes[::-1]


def test_memory_is_bounded(flight_dtd: Dtd, make_event: Event) -> None:
    judged = CheckedCache(flight_dtd, bounds=ShapeBounds(max_bytes=200_000))
    for n in range(1, 40):
        judged.meet_twice(legs(make_event, n))
    assert 0 < judged.cache.bytes_held <= 200_000
    assert 0 < len(judged.cache) < 20
    (found,) = judged.cache.statistics().values()
    assert found.forgotten == found.learnt - found.shapes > 0
    for shape in list(judged.cache._weights):
        judged.cache.drop_shape(shape)
    assert judged.cache.bytes_held == 0
    assert judged.cache._buckets == {}


def test_forgetting_is_told_once_and_may_be_asked_twice(
    judged: CheckedCache, make_event: Event
) -> None:
    gone: list[Shape] = []
    judged.cache.on_dropped = gone.append
    shape = judged.meet_twice(legs(make_event, 1))
    assert shape is not None
    judged.cache.drop_shape(shape)
    judged.cache.drop_shape(shape)
    assert gone == [shape]
    assert not judged.recognises(legs(make_event, 1))
    assert judged.meet_twice(legs(make_event, 1)) is not shape
    assert judged.recognises(legs(make_event, 1))


def test_a_shape_behind_too_many_of_its_size_comes_to_the_front_when_learnt_again(
    flight_dtd: Dtd, make_event: Event
) -> None:
    judged = CheckedCache(flight_dtd, bounds=ShapeBounds(max_variants=100))
    statuses = [f"s{i}" for i in range(MAX_TRIES + 4)]
    for status in [*statuses, *statuses]:
        judged.meet(legs(make_event, 1, status))
    # One at the front, one tried last, and two beyond.
    first = legs(make_event, 1, statuses[0])
    assert not judged.recognises(first)
    shape = judged.meet(first)
    assert shape is not None
    assert judged.recognises(first)
    assert len(judged.cache) == len(statuses)


def test_skeletons_and_sights_are_bounded(flight_dtd: Dtd, make_event: Event) -> None:
    judged = CheckedCache(flight_dtd, bounds=ShapeBounds(max_signatures=5, max_shapes_of_type=4))
    for n in range(1, 30):
        judged.meet_twice(legs(make_event, n))
    (learner,) = judged.cache._types.values()
    assert len(learner._signatures) <= 5
    assert len(learner._skeletons) <= 8
    assert len(judged.cache) <= 4


def test_types_are_bounded(flight_dtd: Dtd, note_dtd: Dtd, make_event: Event) -> None:
    judged = CheckedCache(flight_dtd, note_dtd, bounds=ShapeBounds(max_types=1))
    shape = judged.meet_twice(legs(make_event, 1))
    judged.meet(make_event(b'<note xmlns:x="urn:x"/>', type_name="note"))
    assert shape is not None
    assert set(judged.cache.statistics()) == {note_dtd.reference}
    assert not judged.recognises(legs(make_event, 1))


def barren(count: int, make_event: Event, start: int = 0) -> list[bytes]:
    """Valid documents of which no two have the same tags."""
    found = []
    for number in range(start, start + count):
        bits = f"{number:b}"
        inside = "".join("<leg/>" if bit == "1" else "<leg><speed/></leg>" for bit in bits)
        found.append(make_event(f"<flight><id>U</id>{inside}</flight>".encode()))
    return found


BRISK = ShapeBounds(window=16, pause=32, max_pause=64, credit=8, hits_per_credit=4)


def test_a_type_whose_shapes_do_not_recur_is_suspended(flight_dtd: Dtd, make_event: Event) -> None:
    judged = CheckedCache(flight_dtd, bounds=BRISK)
    for document in barren(20, make_event):
        judged.meet(document)
    (found,) = judged.cache.statistics().values()
    assert found.suspended
    assert found.suspensions == 1
    assert found.shapes == 0
    assert judged.meet_twice(legs(make_event, 1)) is None


def test_it_is_tried_again_after_a_pause_that_grows(flight_dtd: Dtd, make_event: Event) -> None:
    judged = CheckedCache(flight_dtd, bounds=BRISK)
    changes = []
    before = False
    for number, document in enumerate(barren(600, make_event)):
        judged.meet(document)
        (found,) = judged.cache.statistics().values()
        if found.suspended != before:
            changes.append(number)
            before = found.suspended
    lengths = [end - start for start, end in zip(changes, changes[1:], strict=False)]
    assert lengths[:6:2] == [32, 64, 64]
    assert found.misses == 600
    # It has calmed down: after the next pause it recurs.
    for _ in range(200):
        judged.meet(legs(make_event, 1))
    (found,) = judged.cache.statistics().values()
    assert not found.suspended
    assert found.hits > 50


def test_learning_is_paid_for_by_hits(flight_dtd: Dtd, make_event: Event) -> None:
    judged = CheckedCache(
        flight_dtd, bounds=ShapeBounds(window=10_000, credit=4, hits_per_credit=8)
    )
    for n in range(1, 10):
        judged.meet_twice(legs(make_event, n))
    (found,) = judged.cache.statistics().values()
    assert found.learnt == 4
    assert found.not_learnable == {"credit": 5}
    for _ in range(16):
        judged.meet(legs(make_event, 1))
    for _ in range(16):
        for n in range(5, 10):
            judged.meet(legs(make_event, n))
    (found,) = judged.cache.statistics().values()
    assert found.learnt > 5


def test_other_types_do_not_mind(flight_dtd: Dtd, note_dtd: Dtd, make_event: Event) -> None:
    judged = CheckedCache(flight_dtd, note_dtd, bounds=BRISK)
    note = make_event(b'<note xmlns:x="urn:x"><line>x</line></note>', type_name="note")
    for document in barren(100, make_event):
        judged.meet(document)
        judged.meet(note)
    by_type = judged.cache.statistics()
    assert by_type[note_dtd.reference].hits == 98
    assert by_type[flight_dtd.reference].suspended


def test_nothing_is_learnt_if_the_tree_says_otherwise(
    judged: CheckedCache, flight_dtd: Dtd, make_event: Event
) -> None:
    document, other = legs(make_event, 1), legs(make_event, 1, text="other")
    for _ in range(2):
        shape = judged.cache.learn(document, judged.parsed(other), flight_dtd.reference, flight_dtd)
        assert shape is None
    (found,) = judged.cache.statistics().values()
    assert found.not_learnable == {"unverified": 1}
    assert not judged.recognises(document)
