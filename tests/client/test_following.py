"""How far a subscription has got where nothing is missing, through sessions and nodes."""

from __future__ import annotations

import msgspec
import pytest

from broker.client.core import ClientCore
from broker.client.effects import Effect, Keep, Left, Moved, Over, Portion
from broker.client.outbox import Outbox
from broker.client.received import ALL, NEW, STORED, Flow, Gap, Start, last, since, since_time
from broker.client.wish import Wish
from broker.errors import BadPosition
from broker.event.envelope import Liveness
from broker.event.place import Position
from broker.wire import messages
from broker.wire.batches import encode_delivery, encode_events
from broker.wire.messages import (
    NO_ERROR,
    Acknowledge,
    Ended,
    Flowing,
    Progress,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from tests.client.node_words import (
    WINDOW,
    arrived,
    at,
    credit,
    event_at,
    flowing,
    new_core,
    sent,
    subscribe,
    take,
    tell,
)

Place = tuple[str, int]


def says(*places: Place, previous: Place | None = None) -> bytes:
    """A delivery of events of any origins; their numbers are ten times the offsets."""
    events = [event_at(origin, offset, number=10 * offset) for origin, offset in places]
    before = None if previous is None else (previous[0], 1, previous[1])
    return encode_delivery(encode_events(events), [(len(events), (1,))], Liveness.LIVE, before)


def of(**offsets: int) -> Position:
    return Position({origin: (1, offset) for origin, offset in offsets.items()})


def wire(**offsets: int) -> tuple[tuple[str, int, int], ...]:
    return tuple(of(**offsets).to_wire())


def flows(**offsets: int) -> Flowing:
    return Flowing(1, of(**offsets).to_wire())


def given(effects: list[Effect]) -> list[Place]:
    """The events that the user gets."""
    portions = [item for item in arrived(effects) if isinstance(item, Portion)]
    return [(e.place.origin, e.place.offset) for portion in portions for e in portion.events]


def again(core: ClientCore, node: str = "") -> Subscribe:
    """The subscription as the next session's node is asked for it."""
    core.session_down()
    (asked,) = [m for m in sent(core.session_up(False, node)) if isinstance(m, Subscribe)]
    return asked


def begun(start: Start = NEW, durable: str = "", **cut: int) -> ClientCore:
    core = new_core()
    subscribe(core, start, durable)
    tell(core, Subscribed(1, None, ()), flows(**cut))
    return core


# ----------------------------------------------------------------------------- before it flows


def test_what_comes_before_it_flows_waits_for_that() -> None:
    core = begun(n=10, m=10)
    core.session_down()
    core.session_up(False)
    told = tell(
        core, Subscribed(1, None, ()), says(("m", 12)), Progress(((1, of(n=12).to_wire()),))
    )
    assert given(told) == [] and not any(isinstance(item, Moved) for item in arrived(told))
    told = tell(core, flows(n=10, m=14))
    assert isinstance(arrived(told)[0], Flow) and given(told) == [("m", 12)]
    assert Moved(of(n=12)) in arrived(told)


def test_a_session_lost_before_that_leaves_no_trace() -> None:
    core = begun(n=10, m=10)
    core.session_down()
    core.session_up(False)
    tell(core, Subscribed(1, None, ()), says(("m", 12)), Progress(((1, of(n=12).to_wire()),)))
    asked = again(core)
    assert (asked.start, asked.position) == ("position", (("m", 1, 10), ("n", 1, 10)))
    told = tell(core, says(("m", 11), ("m", 12)), flows(n=10, m=10))
    assert given(told) == [("m", 11), ("m", 12)]


def test_what_was_held_takes_no_room_any_more_when_it_is_dropped() -> None:
    core = new_core()
    subscribe(core)
    tell(core, Subscribed(1, None, ()), says(("m", 12)))
    core.session_down()
    assert credit(core.session_up(False)) == [WINDOW]
    data = says(("m", 12))
    tell(core, Subscribed(1, None, ()), data)
    core.unsubscribe(1)
    core.session_down()
    assert credit(core.session_up(False)) == [WINDOW]


def test_a_hole_that_is_told_with_the_flow_is_behind_it_then() -> None:
    core = begun(n=10, m=10)
    core.session_down()
    core.session_up(False)
    tell(core, says(("m", 12)), flows(n=10, m=14))
    # The gap may be on its way still: until it is told m:12 proves nothing.
    assert again(core).position == (("m", 1, 10), ("n", 1, 10))
    tell(core, flows(n=10, m=14), messages.Gap(1, "m", (1, 11), (1, 14), 4, "lost"))
    assert again(core).position == (("m", 1, 14), ("n", 1, 10))


def test_what_was_recovered_into_the_hole_is_given_and_the_rest_not_twice() -> None:
    core = begun(n=10, m=10)
    core.session_down()
    core.session_up(False)
    assert given(tell(core, says(("m", 12)), flows(n=10, m=14))) == [("m", 12)]
    recovered = says(("m", 11), ("m", 12), ("m", 13), previous=("m", 12))
    assert given(tell(core, recovered)) == [("m", 11), ("m", 13)]
    assert core.duplicates_of(1) == 1
    assert again(core).position == (("m", 1, 13), ("n", 1, 10))


def test_where_it_had_got_to_the_cut_what_came_before_is_whole() -> None:
    core = new_core()
    subscribe(core)
    told = tell(core, says(("n", 11), ("m", 6)), flows(n=10, m=7))
    assert given(told) == [("n", 11), ("m", 6)]
    take(core, told)
    assert core.position(1) == of(n=11, m=7) and again(core).position == wire(n=11, m=7)


def test_when_too_much_waits_it_goes_out_and_does_not_come_twice() -> None:
    core = ClientCore(Outbox(100, 100_000), 1000)
    core.session_up(False)
    subscribe(core, since(of(m=10)))
    places = [("m", offset) for offset in range(11, 40)]
    got, previous = [], None
    for place in places:
        got += given(tell(core, says(place, previous=previous)))
        previous = place
    assert len(got) > 20, "half the window is all that waits"
    (asked,) = [m for m in sent(core.session_up(False)) if isinstance(m, Subscribe)]
    assert asked.position == wire(m=10)
    told = tell(core, flows(m=10), says(*places))
    assert got + given(told) == places


def test_a_session_that_held_too_much_is_not_the_measure_of_the_next() -> None:
    core = ClientCore(Outbox(100, 100_000), 1000)
    core.session_up(False)
    subscribe(core, since(of(m=10)))
    large = says(*[("m", offset) for offset in range(11, 40)])
    assert len(given(tell(core, large))) == 29
    again(core)
    assert given(tell(core, says(("m", 40)))) == []
    assert given(tell(core, flows(m=10))) == [("m", 40)]


@pytest.mark.parametrize(("first", "goes_on"), [(11, 14), (12, 10)])
def test_a_gap_before_it_flows_counts_where_nothing_lies_before_it(
    first: int, goes_on: int
) -> None:
    core = begun(m=10)
    again(core)
    told = tell(core, messages.Gap(1, "m", (1, first), (1, 14), 2, "slow"), flows(m=20))
    assert [item for item in arrived(told) if isinstance(item, Gap)]
    assert again(core).position == wire(m=goes_on)


# ----------------------------------------------------------------------------- acknowledging


def test_what_may_have_holes_is_not_acknowledged() -> None:
    core = begun(durable="d", n=10, m=10)
    core.session_down()
    core.session_up(False)
    take(core, tell(core, says(("m", 12)), flows(n=10, m=14)))
    assert not any(isinstance(m, Acknowledge) for m in sent(core.handle_timeout(9.0)))
    take(core, tell(core, Progress(((1, of(m=12).to_wire()),))), now=10.0)
    assert sent(core.handle_timeout(19.0)) == [Acknowledge(((1, wire(n=10, m=12)),))]


def test_an_event_that_is_dropped_moves_the_position_all_the_same() -> None:
    core = begun(durable="d", n=10)
    take(core, tell(core, says(("n", 11))))
    # The same number at another place.
    same = event_at("m", 3, number=110)
    data = encode_delivery(encode_events([same]), [(1, (1,))], Liveness.LIVE, ("n", 1, 11))
    told = tell(core, data)
    assert given(told) == []
    take(core, told)
    assert core.position(1) == of(n=11, m=3)


# ----------------------------------------------------------------------------- where it goes on


def test_it_says_where_it_flowed_last() -> None:
    core = new_core()
    core.session_up(False, "c/first")
    assert sent(subscribe(core))[0] == Subscribe(1, "p.>", "q", {"a": "b"}, "", "new", (), 0)
    tell(core, flows(n=10))
    assert again(core, "c/second").former == "c/first"
    # It never flowed at the second.
    assert again(core, "c/third").former == "c/first"
    tell(core, flows(n=10))
    assert again(core, "c/fourth").former == "c/third"


@pytest.mark.parametrize("start", [ALL, since_time(77), since(at(3)), STORED, NEW, last(5)])
def test_what_did_not_flow_is_asked_for_as_it_was(start: Start) -> None:
    core = new_core()
    first = sent(subscribe(core, start))[0]
    tell(core, says(("n", 11)), Progress(((1, of(n=12).to_wire()),)))
    assert again(core) == first


def test_a_time_holds_on_for_origins_of_which_nothing_has_come() -> None:
    core = begun(since_time(77), n=10, m=10)
    assert (again(core).start, again(core).time) == ("time", 77)
    tell(core, flows(n=10, m=10), says(("n", 3)))
    asked = again(core)
    assert (asked.start, asked.time, asked.position) == ("position", 77, (("n", 1, 3),))


def test_the_last_so_many_begin_it_when_something_follows_them() -> None:
    core = begun(last(5), n=10, m=10)
    told = tell(core, says(("n", 9), ("m", 10)), says(("n", 11), previous=("m", 10)))
    assert given(told) == [("n", 9), ("m", 10), ("n", 11)]
    take(core, told)
    assert core.position(1) == of(n=11, m=10)
    assert (again(core).start, again(core).position) == ("position", wire(n=11, m=10))


def test_the_last_so_many_are_not_counted_anew_after_a_lost_session() -> None:
    core = begun(last(5), n=10, m=10)
    tell(core, says(("n", 9)))
    asked = again(core)
    # Five others may be the newest by now: it asks for those of then, and goes on behind them.
    assert (asked.start, asked.last, asked.until) == ("last", 5, wire(n=10, m=10))
    told = tell(core, Subscribed(1, None, ()), flows(n=20, m=20), says(("n", 9), ("n", 10)))
    assert given(told) == [("n", 10)]
    told += tell(core, Ended(1, NO_ERROR))
    (asked,) = sent(told)
    assert isinstance(asked, Subscribe)
    assert (asked.start, asked.position) == ("position", wire(n=10, m=10))
    assert (asked.number, asked.last, asked.until) == (1, 0, ())
    assert not any(isinstance(item, Over) for item in arrived(told))
    told += tell(core, Subscribed(1, None, ()), flows(n=20, m=20))
    told += tell(core, says(("n", 11), previous=("n", 10)))
    assert given(told) == [("n", 10), ("n", 11)]
    take(core, told)
    assert core.position(1) == of(n=11, m=10)
    assert isinstance(arrived(tell(core, Ended(1, NO_ERROR)))[-1], Over)


def test_the_last_so_many_up_to_an_end_are_asked_for_up_to_it_again() -> None:
    core = new_core()
    core.subscribe(Wish(start=last(5), until_ms=99))
    tell(core, Subscribed(1, None, ()), flows(n=10), says(("n", 9)))
    asked = again(core)
    assert (asked.start, asked.last, asked.until, asked.until_ms) == ("last", 5, (), 99)
    told = tell(core, flows(n=12), says(("n", 9), ("n", 10)), Ended(1, NO_ERROR))
    assert given(told) == [("n", 10)] and isinstance(arrived(told)[-1], Over)


def test_the_last_so_many_that_the_node_ends_with_an_error_are_over() -> None:
    core = begun(last(5), n=10)
    again(core)
    told = tell(core, Ended(1, BadPosition("no").to_wire()))
    assert isinstance(arrived(told)[-1], Over) and not sent(told)


def test_the_end_and_the_speed_are_said_again() -> None:
    core = new_core()
    wish = Wish("q", start=ALL, until=at(50), until_ms=99, pace=2.0, rate=10)
    _, effects = core.subscribe(wish)
    first = sent(effects)[0]
    assert isinstance(first, Subscribe)
    assert (first.until, first.until_ms, first.pace, first.rate) == ((("n", 1, 50),), 99, 2.0, 10)
    tell(core, flows(n=60), says(("n", 20)))
    expected = msgspec.structs.replace(first, start="position", position=(("n", 1, 20),))
    assert again(core) == expected


def test_one_that_ends_before_it_flows_gives_out_what_came() -> None:
    core = new_core()
    subscribe(core)
    told = tell(core, says(("n", 11)), Ended(1, NO_ERROR))
    assert given(told) == [("n", 11)] and arrived(told)[-1] == Over(None, Position())


@pytest.mark.parametrize(
    "wish",
    [
        Wish(pace=-1.0),
        Wish(pace=float("inf")),
        Wish(pace=float("nan")),
        Wish(rate=-1),
        Wish(until_ms=-1),
        Wish(until_ms=1 << 64),
        Wish(start=since_time(-1)),
        Wish(start=last(0)),
        Wish(start=last(-5)),
    ],
)
def test_a_wish_that_no_node_can_keep_is_refused_at_once(wish: Wish) -> None:
    with pytest.raises(BadPosition):
        wish.check()


# ----------------------------------------------------------------------------- the next process


def new_process(**left: Left) -> ClientCore:
    core = ClientCore(Outbox(100, 100_000), WINDOW, left)
    core.session_up(False, "c/new")
    return core


def kept(effects: list[Effect]) -> dict[str, Left]:
    (keep,) = [effect for effect in effects if isinstance(effect, Keep)]
    return dict(keep.durables)


def test_a_durable_one_is_kept_for_the_next_process_with_its_node() -> None:
    core = new_process(other=Left(at(3), "c/old"))
    subscribe(core, STORED, "d")
    tell(core, Subscribed(1, None, ()), flows(n=10))
    take(core, tell(core, says(("n", 11))), now=1.0)
    effects = core.handle_timeout(2.0)
    assert kept(effects) == {"other": Left(at(3), "c/old"), "d": Left(of(n=11), "c/new")}
    assert core.next_timeout() is None


def test_it_is_kept_without_a_connection_too() -> None:
    core = new_process()
    subscribe(core, STORED, "d")
    told = tell(core, Subscribed(1, None, ()), flows(n=10), says(("n", 11)))
    core.session_down()
    take(core, told, now=1.0)
    assert kept(core.handle_timeout(2.0)) == {"d": Left(of(n=11), "c/new")}
    assert kept(core.positions.keep()) == {"d": Left(of(n=11), "c/new")}


def test_the_next_process_goes_on_at_the_further_of_both_positions() -> None:
    core = new_process(d=Left(of(n=7, m=2), "c/old"))
    (asked,) = sent(subscribe(core, STORED, "d"))
    assert isinstance(asked, Subscribe)
    assert (asked.start, asked.former) == ("stored", "c/old")
    assert asked.position == wire(n=7, m=2)
    tell(core, Subscribed(1, of(n=5, m=4).to_wire(), ()))
    assert core.position(1) == of(n=7, m=4)


def test_what_it_left_counts_where_the_node_has_nothing() -> None:
    core = new_process(d=Left(of(n=7), "c/old"))
    subscribe(core, STORED, "d")
    tell(core, Subscribed(1, None, ()), flows(n=20))
    assert core.position(1) == of(n=7) and again(core).position == (("n", 1, 7),)


def test_what_is_forgotten_is_not_kept() -> None:
    core = flowing(durable="d")
    take(core, tell(core, says(("n", 11))))
    effects = core.unsubscribe(1, forget=True)
    assert kept(effects) == {} and sent(effects)[-1] == Unsubscribe(1, True)
