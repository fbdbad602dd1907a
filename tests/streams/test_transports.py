"""Distribution of events and interest among transports, and transports that fail."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from broker.errors import BadQuery, ConfigurationError, Overloaded
from broker.event.annotation import annotation_of, without_annotation
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.record import MAX_ANNOTATION_BYTES
from broker.event.stream import StreamPattern
from broker.log.logged_event import encode_header
from broker.streams.annotator import Entry
from broker.streams.contract import (
    CarriedInterest,
)
from broker.streams.instance import MOST_QUERIES_PER_LINK
from broker.streams.link_key import LinkKey
from tests.streams.recording_transport import (
    BATCH,
    BOATS,
    EVENT,
    EVERYTHING,
    NO_LINKS,
    AnnotatingRecorder,
    AnnouncingRecorder,
    Plugin,
    Services,
    make,
)


@pytest.fixture
def plugins() -> dict[str, Plugin]:
    return {name: Plugin(name) for name in ("mspaces", "radar", "ferry")}


def test_each_event_and_interest_goes_to_the_transport_of_its_streams(
    plugins: dict[str, Plugin],
) -> None:
    transports = make(Services(), plugins)
    transports.listen()
    transports.start()
    transports.publish(BATCH, NO_LINKS)
    transports.recovered(BATCH)
    transports.announce("one", StreamPattern.parse("asdi.zbw"), EVERYTHING)
    transports.announce("all", StreamPattern.parse(">"), EVERYTHING)
    transports.withdraw("one")
    transports.withdraw("never announced")
    (mspaces,), (radar,), (ferry,) = (plugin.created for plugin in plugins.values())
    assert radar.calls == [
        ("listen",),
        ("start",),
        ("publish", "0123/asdi.>"),
        ("recovered", "0123/asdi.>"),
        ("announce", "1", "asdi.zbw", "true()"),
        ("announce", "2", ">", "true()"),
        ("withdraw", "1"),
    ]
    assert ferry.calls == [
        ("listen",),
        ("start",),
        ("announce", "2", ">", "true()"),
        ("withdraw", "1"),
    ]
    assert ("publish", BATCH.flow) not in mspaces.calls


@pytest.mark.parametrize("method", ["create", "listen", "start", "announce", "withdraw", "publish"])
def test_a_transport_that_raises_stops_with_the_reason_and_the_others_go_on(
    method: str, plugins: dict[str, Plugin]
) -> None:
    services = Services()
    transports = make(services, plugins, radar=method)
    transports.listen()
    transports.start()
    transports.announce("key", StreamPattern.parse(">"), EVERYTHING)
    transports.publish(BATCH, NO_LINKS)
    transports.publish(BOATS, NO_LINKS)
    transports.withdraw("key")
    transports.publish(BATCH, NO_LINKS)
    states = {each["name"]: each["error"] for each in transports.snapshot()}
    assert states["radar"].startswith("RuntimeError: ")
    assert (states["mspaces"], states["ferry"]) == ("", "")
    (ferry,) = plugins["ferry"].created
    assert ("publish", BOATS.flow) in ferry.calls
    for radar in plugins["radar"].created:
        assert radar.calls[-2:] == [*radar.calls[-2:-1], ("stop",)]
        assert radar.calls[-2][0] == method


@pytest.mark.parametrize("method", ["create", "start", "publish"])
def test_an_error_of_the_network_of_clusters_does_not_stop_it(
    method: str, plugins: dict[str, Plugin]
) -> None:
    with pytest.raises(RuntimeError):
        transports = make(Services(), plugins, mspaces=method)
        transports.start()
        transports.publish(attrs.evolve(BATCH, flow="0123"), NO_LINKS)
    for created in plugins["mspaces"].created:
        assert ("stop",) not in created.calls


def test_options_that_do_not_fit_stop_the_node(plugins: dict[str, Plugin]) -> None:
    with pytest.raises(ConfigurationError, match="stacks.radar: its options do not fit"):
        make(Services(), plugins, radar="options")
    with pytest.raises(ConfigurationError, match="stacks.radar: the port is in use"):
        make(Services(), plugins, radar="port").listen()


def test_a_transport_matches_events_for_its_own_links_only(plugins: dict[str, Plugin]) -> None:
    services = Services()
    transports = make(services, plugins)
    radar, ferry = plugins["radar"].created[0].context, plugins["ferry"].created[0].context
    assert radar is not None and ferry is not None
    wanted = CarriedInterest(StreamPattern.parse("asdi.>"), "//flight", {})
    radar.set_link_interest(("10.0.0.7", 9001), "0", wanted)
    ferry.set_link_interest("harbour", "0", wanted)
    assert radar.match(BATCH) == [frozenset({("10.0.0.7", 9001)})]
    radar.set_link_interest(("10.0.0.7", 9001), "0", None)
    assert (radar.match(BATCH), ferry.match(BATCH)) == ([frozenset()], [frozenset({"harbour"})])
    with pytest.raises(BadQuery):
        ferry.set_link_interest("harbour", "1", CarriedInterest(wanted.pattern, "//[", {}))
    ferry.receive(BOATS)
    ferry.receive(attrs.evolve(BOATS, after=BOATS.upto))
    # A flow of another instance.
    ferry.receive(BATCH)
    assert services.received == [BOATS, attrs.evolve(BOATS, after=BOATS.upto)]
    counts = {
        each["name"]: (each.get("received"), each.get("rejected_batches"))
        for each in transports.snapshot()
    }
    assert counts == {"mspaces": (None, None), "radar": (0, 0), "ferry": (1, 2)}


def test_batches_after_the_stop_are_dropped(plugins: dict[str, Plugin]) -> None:
    """The log may be closed."""
    services = Services()
    transports = make(services, plugins)
    ferry = plugins["ferry"].created[0].context
    assert ferry is not None
    transports.stop()
    ferry.receive(BOATS)
    assert services.received == []


def test_own_events_are_not_matched_again_and_those_above_the_clearance_are_left_missing(
    plugins: dict[str, Plugin],
) -> None:
    services = Services()
    transports = make(services, plugins)
    high, later = EVENT._replace(mark=(1, 9), level=2), EVENT._replace(mark=(1, 12))
    batch = attrs.evolve(BATCH, upto=(1, 12), events=[EVENT, high, later])
    east = frozenset({LinkKey("radar", "east"), LinkKey("ferry", "harbour")})
    transports.publish(batch, [east, east, frozenset()])
    (radar,) = plugins["radar"].created
    assert [(each.after, each.upto, each.events) for each in radar.batches] == [
        ((1, 6), (1, 8), [EVENT]),
        ((1, 9), (1, 12), [later]),
    ]
    assert radar.links == [[frozenset({"east"})], [frozenset()]]
    assert services.matched == 0


def test_a_fed_transport_announces_the_interest_behind_its_links(
    plugins: dict[str, Plugin],
) -> None:
    services = Services()
    make(services, plugins, feed="mspaces")
    radar, ferry = plugins["radar"].created[0].context, plugins["ferry"].created[0].context
    assert radar is not None and ferry is not None
    wanted = CarriedInterest(StreamPattern.parse("asdi.>"), "//flight", {})
    assert (ferry.request_feed(), radar.request_feed(), radar.request_feed()) == (False, True, True)
    assert services.fed == ["asdi.>"]
    assert ferry.set_link_interest("harbour", "0", wanted).called
    selected = radar.set_link_interest("east", "0", wanted)
    assert not selected.called
    everything, (key, on_active) = services.announced.items()
    assert everything[0] == ("radar", "asdi.>")
    assert key == (LinkKey("radar", "east"), "0")
    on_active({"0123/asdi.>": (1, 6)})
    assert selected.result == {"0123/asdi.>": (1, 6)}
    radar.set_link_interest("east", "0", None)
    assert list(services.announced) == [("radar", "asdi.>")]


def test_own_events_are_matched_again_if_interest_came_before_their_commit(
    plugins: dict[str, Plugin],
) -> None:
    services = Services()
    transports = make(services, plugins)
    (radar,) = plugins["radar"].created
    assert radar.context is not None
    services.own_end = (1, 7)
    wanted = CarriedInterest(StreamPattern.parse("asdi.>"), "true()", {})
    radar.context.set_link_interest("east", "0", wanted)
    transports.publish(BATCH, NO_LINKS)
    transports.publish(attrs.evolve(BATCH, after=(1, 7), upto=(1, 9)), NO_LINKS)
    assert radar.links == [[frozenset({"east"})], [frozenset()]]
    assert services.matched == 1


def test_interest_behind_a_link_is_bounded_and_ends_with_its_transport(
    plugins: dict[str, Plugin],
) -> None:
    services = Services()
    make(services, plugins)
    radar = plugins["radar"].created[0].context
    assert radar is not None
    wanted = CarriedInterest(StreamPattern.parse("asdi.>"), "true()", {})
    for number in range(MOST_QUERIES_PER_LINK):
        radar.set_link_interest("east", str(number), wanted)
    radar.set_link_interest("east", "0", wanted)
    with pytest.raises(Overloaded, match="behind the link east"):
        radar.set_link_interest("east", "one more", wanted)
    radar.set_link_interest("west", "0", wanted)
    radar.fail(RuntimeError("no more"))
    assert services.installed == {}


def entry(stream: str, number: int) -> Entry:
    event_id = EventId("p", 1, number, 1)
    header = Header(event_id, stream, "t", "1.0", SecurityLevel.LOW, Liveness.LIVE)
    return encode_header(header), 0, b"<e/>"


STREAMS = ["asdi.zny", "boats.1", "other", "asdi.zbw", "boats.1"]
ENTRIES = [entry(stream, number) for number, stream in enumerate(STREAMS)]


def annotations_of(entries: Sequence[Entry]) -> list[int]:
    assert [without_annotation(record) for record, _, _ in entries] == [e[0] for e in ENTRIES]
    assert [entry[1:] for entry in entries] == [entry[1:] for entry in ENTRIES]
    return [len(annotation_of(record)) for record, _, _ in entries]


def test_a_transport_annotates_own_events_of_its_streams(plugins: dict[str, Plugin]) -> None:
    plugins["radar"].kind = plugins["mspaces"].kind = AnnotatingRecorder
    annotate = make(Services(), plugins).make_annotator(lambda: (7, 20))
    assert annotate is not None
    assert annotations_of(annotate(ENTRIES)) == [21, 0, 0, 24, 0]
    others = [entry for entry, stream in zip(ENTRIES, STREAMS, strict=True) if stream == "other"]
    assert annotate(others) is others
    assert plugins["radar"].created[0].calls == [("annotate", (7, 21), (7, 24))]
    assert plugins["mspaces"].created[0].calls == []


def test_without_annotating_transports_nothing_is_called(plugins: dict[str, Plugin]) -> None:
    plugins["mspaces"].kind = AnnotatingRecorder
    assert make(Services(), plugins).make_annotator(lambda: (7, 20)) is None


@pytest.mark.parametrize("wrong", ["raises", "too many bytes", "too few"])
def test_a_wrong_annotation_stops_its_transport_and_events_are_committed_without(
    plugins: dict[str, Plugin], wrong: str
) -> None:
    plugins["radar"].kind = plugins["ferry"].kind = AnnotatingRecorder
    transports = make(Services(), plugins, "annotate" if wrong == "raises" else "")
    recorder = plugins["radar"].created[0]
    assert isinstance(recorder, AnnotatingRecorder)
    recorder.size = MAX_ANNOTATION_BYTES + 1 if wrong == "too many bytes" else 0
    recorder.left_out = int(wrong == "too few")
    annotate = transports.make_annotator(lambda: (7, 20))
    assert annotate is not None
    for _ in range(2):
        assert annotations_of(annotate(ENTRIES)) == [0, 22, 0, 0, 25]
    assert [call[0] for call in recorder.calls] == ["annotate", "stop"]
    errors = {each["name"]: each["error"] for each in transports.snapshot()}
    expected = {"raises": "no more", "too many bytes": "1024 bytes", "too few": "shorter"}[wrong]
    assert expected in errors["radar"] and not errors["ferry"]


def test_only_a_transport_that_announces_interest_itself_does_so_alone(
    plugins: dict[str, Plugin],
) -> None:
    services = Services()
    plugins["radar"].kind = AnnouncingRecorder
    transports = make(services, plugins, feed="mspaces")
    alone = {
        text: transports.announce_alone(StreamPattern.parse(text))
        for text in ("asdi.>", "asdi.zbw", "*.zbw", "boats.one", ">", "other")
    }
    assert alone == {
        "asdi.>": True,
        "asdi.zbw": True,
        "*.zbw": False,
        "boats.one": False,
        ">": False,
        "other": False,
    }
    # While another node has another stack, and for a root, the network must know of it, too.
    services.agrees = False
    assert not transports.announce_alone(StreamPattern.parse("asdi.>"))
    services.agrees = True
    radar = plugins["radar"].created[0]
    assert radar.context is not None and radar.context.request_feed()
    assert list(services.announced) == [("radar", "asdi.>")]
    assert not transports.announce_alone(StreamPattern.parse("asdi.>"))


def test_the_network_learns_of_the_interest_of_a_transport_that_stops(
    plugins: dict[str, Plugin],
) -> None:
    services = Services()
    plugins["radar"].kind = AnnouncingRecorder
    transports = make(services, plugins, radar="publish")
    transports.publish(BATCH, NO_LINKS)
    assert services.announced_later == ["asdi.>"]
    assert not transports.announce_alone(StreamPattern.parse("asdi.>"))
