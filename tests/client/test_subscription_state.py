"""Complete positions of a subscription through sessions and nodes."""

from __future__ import annotations

import msgspec
import pytest

from broker.client.core import ClientCore
from broker.client.effects import (
    Effect,
    EventBatch,
    PositionMoved,
    SubscriptionEnded,
)
from broker.client.outbox import Outbox
from broker.client.received import (
    ALL,
    NEW,
    STORED,
    FlowStarted,
    Gap,
    Start,
    last,
    since,
    since_time,
)
from broker.client.subscription_request import SubscriptionRequest
from broker.errors import BadPosition
from broker.event.envelope import Liveness
from broker.event.place import Position
from broker.event.site_notice import MissingMessages, SiteNotice, SiteStatus
from broker.wire import messages
from broker.wire.event_batch import encode_delivery, encode_events
from broker.wire.messages import (
    NO_ERROR,
    Acknowledge,
    Ended,
    Flowing,
    Progress,
    Subscribe,
    Subscribed,
)
from broker.wire.site_notice import NoticeMessage, notice_to_message
from tests.client.node_messages import (
    WINDOW,
    at,
    credit_limits,
    event_at,
    items_for,
    new_core,
    process_items,
    receive,
    sent,
    subscribe,
)

Place = tuple[str, int]
STATUS = SiteStatus("ops", "c", "suspected", "silent", 5, 65)
LOST = MissingMessages("ops", "c", 7, 3, 5, "lost")


def to_message(notice: SiteNotice) -> NoticeMessage:
    return notice_to_message(1, notice)


def deliver(*places: Place, previous: Place | None = None) -> bytes:
    """Return a delivery of events whose numbers are ten times the offsets."""
    events = [event_at(origin, offset, number=10 * offset) for origin, offset in places]
    before = None if previous is None else (previous[0], 1, previous[1])
    return encode_delivery(encode_events(events), [(len(events), (1,))], Liveness.LIVE, before)


def position_of(**offsets: int) -> Position:
    return Position({origin: (1, offset) for origin, offset in offsets.items()})


def wire(**offsets: int) -> tuple[tuple[str, int, int], ...]:
    return tuple(position_of(**offsets).to_wire())


def flowing_at(**offsets: int) -> Flowing:
    return Flowing(1, position_of(**offsets).to_wire())


def delivered_places(effects: list[Effect]) -> list[Place]:
    portions = [item for item in items_for(effects) if isinstance(item, EventBatch)]
    return [(e.place.origin, e.place.offset) for portion in portions for e in portion.events]


def resubscribe(core: ClientCore, node: str = "") -> Subscribe:
    """Start a new session."""
    core.session_down()
    (asked,) = [m for m in sent(core.session_up(False, node)) if isinstance(m, Subscribe)]
    return asked


def core_flowing_at(start: Start = NEW, durable: str = "", **cut: int) -> ClientCore:
    core = new_core()
    subscribe(core, start, durable)
    receive(core, Subscribed(1, None, ()), flowing_at(**cut))
    return core


# ----------------------------------------------------------------------------- before the flow


def test_items_before_the_flow_are_held() -> None:
    core = core_flowing_at(n=10, m=10)
    core.session_down()
    core.session_up(False)
    effects = receive(
        core,
        Subscribed(1, None, ()),
        deliver(("m", 12)),
        Progress(((1, position_of(n=12).to_wire()),)),
    )
    assert delivered_places(effects) == [] and not any(
        isinstance(item, PositionMoved) for item in items_for(effects)
    )
    effects = receive(core, flowing_at(n=10, m=14))
    assert isinstance(items_for(effects)[0], FlowStarted) and delivered_places(effects) == [
        ("m", 12)
    ]
    assert PositionMoved(position_of(n=12)) in items_for(effects)


def test_a_session_lost_before_the_flow_leaves_no_trace() -> None:
    core = core_flowing_at(n=10, m=10)
    core.session_down()
    core.session_up(False)
    receive(
        core,
        Subscribed(1, None, ()),
        deliver(("m", 12)),
        Progress(((1, position_of(n=12).to_wire()),)),
    )
    asked = resubscribe(core)
    assert (asked.start, asked.position) == ("position", (("m", 1, 10), ("n", 1, 10)))
    effects = receive(core, deliver(("m", 11), ("m", 12)), flowing_at(n=10, m=10))
    assert delivered_places(effects) == [("m", 11), ("m", 12)]


def test_dropped_items_return_their_credit() -> None:
    core = new_core()
    subscribe(core)
    receive(core, Subscribed(1, None, ()), deliver(("m", 12)))
    core.session_down()
    assert credit_limits(core.session_up(False)) == [WINDOW]
    data = deliver(("m", 12))
    receive(core, Subscribed(1, None, ()), data)
    core.unsubscribe(1)
    core.session_down()
    assert credit_limits(core.session_up(False)) == [WINDOW]


def test_a_missing_range_is_passed_when_its_gap_arrives() -> None:
    core = core_flowing_at(n=10, m=10)
    core.session_down()
    core.session_up(False)
    receive(core, deliver(("m", 12)), flowing_at(n=10, m=14))
    # Until the gap arrives, m:12 proves nothing.
    assert resubscribe(core).position == (("m", 1, 10), ("n", 1, 10))
    receive(core, flowing_at(n=10, m=14), messages.Gap(1, "m", (1, 11), (1, 14), 4, "lost"))
    assert resubscribe(core).position == (("m", 1, 14), ("n", 1, 10))


def test_events_recovered_into_a_missing_range_come_once() -> None:
    core = core_flowing_at(n=10, m=10)
    core.session_down()
    core.session_up(False)
    assert delivered_places(receive(core, deliver(("m", 12)), flowing_at(n=10, m=14))) == [
        ("m", 12)
    ]
    recovered = deliver(("m", 11), ("m", 12), ("m", 13), previous=("m", 12))
    assert delivered_places(receive(core, recovered)) == [("m", 11), ("m", 13)]
    assert core.duplicates_of(1) == 1
    assert resubscribe(core).position == (("m", 1, 13), ("n", 1, 10))


def test_held_events_are_complete_if_the_cut_was_reached() -> None:
    core = new_core()
    subscribe(core)
    effects = receive(core, deliver(("n", 11), ("m", 6)), flowing_at(n=10, m=7))
    assert delivered_places(effects) == [("n", 11), ("m", 6)]
    process_items(core, effects)
    assert core.position_of(1) == position_of(n=11, m=7) and resubscribe(core).position == wire(
        n=11, m=7
    )


def test_held_items_beyond_the_bound_are_released_once() -> None:
    core = ClientCore(Outbox(100, 100_000), 1000)
    core.session_up(False)
    subscribe(core, since(position_of(m=10)))
    places = [("m", offset) for offset in range(11, 40)]
    got, previous = [], None
    for place in places:
        got += delivered_places(receive(core, deliver(place, previous=previous)))
        previous = place
    assert len(got) > 20, "half the window is all that waits"
    (asked,) = [m for m in sent(core.session_up(False)) if isinstance(m, Subscribe)]
    assert asked.position == wire(m=10)
    effects = receive(core, flowing_at(m=10), deliver(*places))
    assert got + delivered_places(effects) == places


def test_a_session_that_held_too_much_does_not_affect_the_next() -> None:
    core = ClientCore(Outbox(100, 100_000), 1000)
    core.session_up(False)
    subscribe(core, since(position_of(m=10)))
    large = deliver(*[("m", offset) for offset in range(11, 40)])
    assert len(delivered_places(receive(core, large))) == 29
    resubscribe(core)
    assert delivered_places(receive(core, deliver(("m", 40)))) == []
    assert delivered_places(receive(core, flowing_at(m=10))) == [("m", 40)]


@pytest.mark.parametrize(("first", "resumed_at"), [(11, 14), (12, 10)])
def test_a_gap_before_the_flow_counts_if_nothing_is_missing_before_it(
    first: int, resumed_at: int
) -> None:
    core = core_flowing_at(m=10)
    resubscribe(core)
    effects = receive(core, messages.Gap(1, "m", (1, first), (1, 14), 2, "slow"), flowing_at(m=20))
    assert [item for item in items_for(effects) if isinstance(item, Gap)]
    assert resubscribe(core).position == wire(m=resumed_at)


def test_notices_about_sites_come_in_sequence_and_move_no_position() -> None:
    core = core_flowing_at(n=10)
    assert items_for(receive(core, to_message(STATUS), to_message(LOST))) == [STATUS, LOST]
    before = resubscribe(core).position
    held = receive(core, to_message(STATUS), deliver(("n", 11)), to_message(LOST))
    assert items_for(held) == []
    _, status, batch, lost = items_for(receive(core, flowing_at(n=10)))
    assert (status, lost) == (STATUS, LOST) and isinstance(batch, EventBatch)
    assert resubscribe(core).position == wire(n=11) and before == wire(n=10)


def test_a_lost_session_drops_held_statuses_and_no_missing_messages() -> None:
    core = core_flowing_at(n=10)
    resubscribe(core)
    receive(core, to_message(STATUS), deliver(("n", 11)), to_message(LOST))
    resubscribe(core)
    assert items_for(receive(core, to_message(STATUS))) == []
    _, *items = items_for(receive(core, flowing_at(n=10)))
    assert items == [LOST, STATUS]


# ----------------------------------------------------------------------------- acknowledging


def test_possibly_incomplete_positions_are_not_acknowledged() -> None:
    core = core_flowing_at(durable="d", n=10, m=10)
    core.session_down()
    core.session_up(False)
    process_items(core, receive(core, deliver(("m", 12)), flowing_at(n=10, m=14)))
    assert not any(isinstance(m, Acknowledge) for m in sent(core.handle_timeout(9.0)))
    process_items(core, receive(core, Progress(((1, position_of(m=12).to_wire()),))), now=10.0)
    assert sent(core.handle_timeout(19.0)) == [Acknowledge(((1, wire(n=10, m=12)),))]


def test_a_dropped_duplicate_moves_the_position() -> None:
    core = core_flowing_at(durable="d", n=10)
    process_items(core, receive(core, deliver(("n", 11))))
    # The same EventId at another place.
    same = event_at("m", 3, number=110)
    data = encode_delivery(encode_events([same]), [(1, (1,))], Liveness.LIVE, ("n", 1, 11))
    effects = receive(core, data)
    assert delivered_places(effects) == []
    process_items(core, effects)
    assert core.position_of(1) == position_of(n=11, m=3)


# ----------------------------------------------------------------------------- resuming


def test_it_sends_the_node_at_which_it_last_flowed() -> None:
    core = new_core()
    core.session_up(False, "c/first")
    assert sent(subscribe(core))[0] == Subscribe(1, "p.>", "q", {"a": "b"}, "", "new", (), 0)
    receive(core, flowing_at(n=10))
    assert resubscribe(core, "c/second").previous_address == "c/first"
    # It did not flow at the second node.
    assert resubscribe(core, "c/third").previous_address == "c/first"
    receive(core, flowing_at(n=10))
    assert resubscribe(core, "c/fourth").previous_address == "c/third"


@pytest.mark.parametrize("start", [ALL, since_time(77), since(at(3)), STORED, NEW, last(5)])
def test_a_subscription_that_did_not_flow_is_requested_unchanged(start: Start) -> None:
    core = new_core()
    first = sent(subscribe(core, start))[0]
    receive(core, deliver(("n", 11)), Progress(((1, position_of(n=12).to_wire()),)))
    assert resubscribe(core) == first


def test_a_time_still_applies_to_origins_that_sent_nothing() -> None:
    core = core_flowing_at(since_time(77), n=10, m=10)
    assert (resubscribe(core).start, resubscribe(core).time) == ("time", 77)
    receive(core, flowing_at(n=10, m=10), deliver(("n", 3)))
    asked = resubscribe(core)
    assert (asked.start, asked.time, asked.position) == ("position", 77, (("n", 1, 3),))


def test_the_last_n_events_are_complete_when_another_follows() -> None:
    core = core_flowing_at(last(5), n=10, m=10)
    effects = receive(core, deliver(("n", 9), ("m", 10)), deliver(("n", 11), previous=("m", 10)))
    assert delivered_places(effects) == [("n", 9), ("m", 10), ("n", 11)]
    process_items(core, effects)
    assert core.position_of(1) == position_of(n=11, m=10)
    assert (resubscribe(core).start, resubscribe(core).position) == ("position", wire(n=11, m=10))


def test_the_last_n_events_are_not_recounted_from_the_new_end() -> None:
    core = core_flowing_at(last(5), n=10, m=10)
    receive(core, deliver(("n", 9)))
    asked = resubscribe(core)
    # It requests the original five, and continues after them.
    assert (asked.start, asked.last, asked.until) == ("last", 5, wire(n=10, m=10))
    effects = receive(
        core, Subscribed(1, None, ()), flowing_at(n=20, m=20), deliver(("n", 9), ("n", 10))
    )
    assert delivered_places(effects) == [("n", 10)]
    effects += receive(core, Ended(1, NO_ERROR))
    (continued,) = sent(effects)
    assert isinstance(continued, Subscribe)
    assert (continued.start, continued.position) == ("position", wire(n=10, m=10))
    assert (continued.number, continued.last, continued.until) == (1, 0, ())
    assert not any(isinstance(item, SubscriptionEnded) for item in items_for(effects))
    effects += receive(core, Subscribed(1, None, ()), flowing_at(n=20, m=20))
    effects += receive(core, deliver(("n", 11), previous=("n", 10)))
    assert delivered_places(effects) == [("n", 10), ("n", 11)]
    process_items(core, effects)
    assert core.position_of(1) == position_of(n=11, m=10)
    assert isinstance(items_for(receive(core, Ended(1, NO_ERROR)))[-1], SubscriptionEnded)


def test_the_last_n_events_before_an_end_keep_that_end() -> None:
    core = new_core()
    core.subscribe(SubscriptionRequest(start=last(5), until_ms=99))
    receive(core, Subscribed(1, None, ()), flowing_at(n=10), deliver(("n", 9)))
    asked = resubscribe(core)
    assert (asked.start, asked.last, asked.until, asked.until_ms) == ("last", 5, (), 99)
    effects = receive(core, flowing_at(n=12), deliver(("n", 9), ("n", 10)), Ended(1, NO_ERROR))
    assert delivered_places(effects) == [("n", 10)] and isinstance(
        items_for(effects)[-1], SubscriptionEnded
    )


def test_the_last_n_events_end_with_the_nodes_error() -> None:
    core = core_flowing_at(last(5), n=10)
    resubscribe(core)
    effects = receive(core, Ended(1, BadPosition("no").to_wire()))
    assert isinstance(items_for(effects)[-1], SubscriptionEnded) and not sent(effects)


def test_the_end_and_the_speed_are_sent_again() -> None:
    core = new_core()
    request = SubscriptionRequest("q", start=ALL, until=at(50), until_ms=99, pace=2.0, rate=10)
    _, effects = core.subscribe(request)
    first = sent(effects)[0]
    assert isinstance(first, Subscribe)
    assert (first.until, first.until_ms, first.pace, first.rate) == ((("n", 1, 50),), 99, 2.0, 10)
    receive(core, flowing_at(n=60), deliver(("n", 20)))
    expected = msgspec.structs.replace(first, start="position", position=(("n", 1, 20),))
    assert resubscribe(core) == expected


def test_a_subscription_that_ends_before_the_flow_releases_its_items() -> None:
    core = new_core()
    subscribe(core)
    effects = receive(core, deliver(("n", 11)), Ended(1, NO_ERROR))
    assert delivered_places(effects) == [("n", 11)] and items_for(effects)[-1] == SubscriptionEnded(
        None, Position()
    )


@pytest.mark.parametrize(
    "invalid",
    [
        SubscriptionRequest(pace=-1.0),
        SubscriptionRequest(pace=float("inf")),
        SubscriptionRequest(pace=float("nan")),
        SubscriptionRequest(rate=-1),
        SubscriptionRequest(until_ms=-1),
        SubscriptionRequest(until_ms=1 << 64),
        SubscriptionRequest(start=since_time(-1)),
        SubscriptionRequest(start=last(0)),
        SubscriptionRequest(start=last(-5)),
    ],
)
def test_an_impossible_request_is_refused_at_once(invalid: SubscriptionRequest) -> None:
    with pytest.raises(BadPosition):
        invalid.validate()
