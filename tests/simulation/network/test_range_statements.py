"""A node on the way can not hide events of an origin of another cluster (issue 23, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs
import pytest

from broker.cluster.address import Address
from broker.cluster.handshake_messages import PROTOCOL_VERSIONS
from broker.cluster.replicas.page_frame import make_page_frame
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.version import PROOF_VERSION
from broker.event.envelope import SecurityLevel
from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read, read_logs


@attrs.define
class Seen:
    """Frames of the origin that a malicious node has forwarded."""

    earlier: list[Frame] = attrs.field(factory=list)
    """With events, to the victim."""
    of_another: list[Frame] = attrs.field(factory=list)
    """To another destination."""


#: Gets a frame of the origin on its way to the victim; returns those that are sent.
Attack = Callable[[Seen, Frame], Sequence[Frame]]


def evolve_ranges(frame: Frame, change: Callable[[Range], Range], **changes: Any) -> Frame:
    return attrs.evolve(frame, ranges=[change(each) for each in frame.ranges], **changes)


def remove_an_event(_: Seen, frame: Frame) -> Sequence[Frame]:
    return [frame.with_only_events(range(1, frame.event_count))]


def claim_an_empty_range(_: Seen, frame: Frame) -> Sequence[Frame]:
    return [frame.with_only_events([])]


def claim_retention(_: Seen, frame: Frame) -> Sequence[Frame]:
    empty = frame.with_only_events([])
    return [evolve_ranges(empty, lambda span: span._replace(unavailable_upto=span.upto))]


def give_an_older_statement(seen: Seen, frame: Frame) -> Sequence[Frame]:
    """The earlier frame comes again, then its statement with the newer range."""
    old = seen.earlier[0]
    proof = old.ranges[0].proof
    empty = frame.with_only_events([])
    changed = evolve_ranges(empty, lambda span: span._replace(proof=proof), statement=old.statement)
    return [old, changed]


def give_the_range_of_another(seen: Seen, frame: Frame) -> Sequence[Frame]:
    """Its destination has no interest in these events."""
    destination = frame.ranges[0].destination
    (empty,) = [each for each in seen.of_another[-1:] if not each.event_count]
    return [evolve_ranges(empty, lambda span: span._replace(destination=destination))]


def strip_the_statement(_: Seen, frame: Frame) -> Sequence[Frame]:
    empty = frame.with_only_events([])
    return [evolve_ranges(empty, lambda span: span._replace(proof=None), statement=None)]


def pass_for_a_replica(_: Seen, frame: Frame) -> Sequence[Frame]:
    span = frame.ranges[0]
    page = Range(span.destination, span.after, span.upto, is_unfiltered=True)
    return [make_page_frame(frame.origin, Address(("two",), "m"), [page], [])]


ATTACKS: list[Attack] = [
    remove_an_event,
    claim_an_empty_range,
    claim_retention,
    give_an_older_statement,
    give_the_range_of_another,
    strip_the_statement,
    pass_for_a_replica,
]


class MaliciousNode:
    """Changes frames of one origin for one neighbour, while it has an attack."""

    def __init__(self, world: NetworkWorld, name: str, origin: str, victim: str) -> None:
        self.attack: Attack | None = None
        self.count = 0
        self._origin, self._victim = origin, victim
        self._seen = Seen()
        driver: Any = world.network_of(name).driver
        self._send, driver._send_frame = driver._send_frame, self._send_frame

    def _send_frame(self, neighbour: str, frame: Frame) -> None:
        sent: Sequence[Frame] = [frame]
        if frame.origin == self._origin and neighbour != self._victim:
            self._seen.of_another.append(frame)
        elif frame.origin == self._origin and frame.event_count:
            if self.attack is None:
                self._seen.earlier.append(frame)
            else:
                sent = self.attack(self._seen, frame)
                self.count += 1
        for each in sent:
            self._send(neighbour, each)


def build_two_paths(world: NetworkWorld) -> tuple[Publisher, Reader, MaliciousNode]:
    """`a` publishes, `b` reads; `m` is on one path, and `h` on another, which is cut."""
    world.add("a", "one")
    world.add("m", "two", gateways=["a"])
    world.add("h", "four", gateways=["a"])
    world.add("b", "three", gateways=["m", "h"])
    world.add("c", "five", gateways=["m"])
    world.cut("b", "h", refuse=True)
    world.run(4.0)
    publisher = Publisher(world.client("publisher", "a"))
    reader = Reader(world, world.client("reader", "b"))
    other = Reader(world, world.client("other", "c"), INTERESTS[4])
    world.run_until(lambda: reader.is_flowing and other.is_flowing)
    malicious = MaliciousNode(world, "m", world["a"].event_log.origin, "b")
    return publisher, reader, malicious


def publish(world: NetworkWorld, publisher: Publisher, rounds: int) -> None:
    for _ in range(rounds):
        for _ in range(3):
            publisher.publish()
        world.run(0.2)


@pytest.mark.parametrize("has_other_path", [False, True])
@pytest.mark.parametrize("attack", ATTACKS)
def test_hidden_events_are_found_and_come_over_an_honest_path(
    attack: Attack, has_other_path: bool
) -> None:
    with NetworkWorld(1) as world:
        publisher, reader, malicious = build_two_paths(world)
        publish(world, publisher, 2)
        read(world, reader)
        assert len(reader.events) == 6
        signatures = world.network_of("b").signatures
        assert not signatures.rejected
        malicious.attack = attack
        publish(world, publisher, 2)
        read(world, reader, seconds=5.0)
        assert malicious.count > 1
        assert signatures.rejected.keys() == {"m"}
        assert len(reader.events) == 6 and reader.gaps == []
        if has_other_path:
            world.cut("b", "m", refuse=True)
            world.heal("b", "h")
        else:
            malicious.attack = None
        read(world, reader, seconds=60.0)
        publish(world, publisher, 1)
        read(world, reader, seconds=5.0)
        reader.check(read_logs(world))
        assert len(reader.events) == 15 and reader.gaps == []
        assert signatures.rejected.keys() == {"m"}


def test_an_announcement_of_a_replica_moves_no_position() -> None:
    with NetworkWorld(1) as world:
        world.add("a", "one")
        world.add("m", "two", gateways=["a"])
        world.add("b", "three", gateways=["m"], gap_timeout=20.0)
        world.run(4.0)
        publisher = Publisher(world.client("publisher", "a"))
        reader = Reader(world, world.client("reader", "b"))
        world.run_until(lambda: reader.is_flowing)
        publish(world, publisher, 1)
        origin, traffic = world["a"].event_log.origin, world.network_of("b").traffic
        assert traffic is not None
        before = traffic.receiver.position_of(origin)
        end = Range(Address(("three",), ""), (4_000_000_000, 0), (4_000_000_000, 0))
        announced = make_page_frame(origin, Address(("two",), "m"), [end], [])
        world.network_of("m").driver.send_frame(announced)
        read(world, reader, seconds=60.0)
        assert traffic.receiver.counts.asked
        assert traffic.receiver.position_of(origin) == before
        publish(world, publisher, 1)
        read(world, reader, seconds=5.0)
        assert len(reader.events) == 6 and reader.gaps == []


def test_links_with_a_low_clearance_and_splits_reject_nothing() -> None:
    """`a` sends one frame for three units; the link to `d` carries no event above `low`."""
    with NetworkWorld(1) as world:
        key = world.key_file(b"k" * 32)
        add = partial(world.add, key_file=key)
        high, low = SecurityLevel.HIGH, SecurityLevel.LOW
        add("a", "one", cleartext_clearance=high)
        add("m", "two", gateways=["a"], cleartext_clearance=high)
        add("b", "three", gateways=["m"], cleartext_clearance=high)
        add("d", "five", gateways=["b"], cleartext_clearance=low, clearance=low)
        world.run(4.0)
        publisher = Publisher(world.client("publisher", "a"))
        readers = [
            Reader(world, world.client("near", "m"), INTERESTS[1]),
            Reader(world, world.client("middle", "b")),
            Reader(world, world.client("far", "d")),
        ]
        world.run_until(lambda: all(each.is_flowing for each in readers))
        for number in range(30):
            level = (SecurityLevel.LOW, SecurityLevel.MED, high)[number % 3]
            publisher.publish(altitude=100 * number, level=level)
            if number % 4 == 3:
                world.run(0.1)
        read(world, *readers, seconds=70.0)
        found = [[each.header.security_level for each in reader.events] for reader in readers]
        assert len(found[1]) == 30 and found[2] == [low] * 10
        for name in "ambd":
            assert not world.network_of(name).signatures.rejected, name


@pytest.mark.parametrize("must_sign", [False, True])
def test_statements_are_checked_inside_a_cluster_by_setting(must_sign: bool) -> None:
    with NetworkWorld(1) as world:
        for name, others in (("a", ()), ("m", ("a",)), ("b", ("m",))):
            world.add(*(name, "one"), join=others, verify="always", require_signatures=must_sign)
        world.add("far", "two", gateways=["a"], require_signatures=must_sign)
        world.run(4.0)
        publishers = [Publisher(world.client(f"publisher-{each}", each)) for each in ("a", "far")]
        reader = Reader(world, world.client("reader", "b"), INTERESTS[1])
        world.run_until(lambda: reader.is_flowing)
        for altitude in (100, 1000, 200, 1000, 1000):
            for each in publishers:
                each.publish(altitude=altitude)
            world.run(0.3)
        read(world, reader, seconds=70.0)
        reader.check(read_logs(world))
        assert len(reader.events) == 6 and reader.gaps == []
        assert not any(world.network_of(name).signatures.rejected for name in world.names)
        malicious = MaliciousNode(world, "a", world["a"].event_log.origin, "b")
        malicious.attack = strip_the_statement
        publishers[0].publish()
        read(world, reader, seconds=3.0)
        rejected = world.network_of("b").signatures.rejected
        assert rejected.keys() == {"a"} and len(reader.events) == 6
        malicious.attack = None
        read(world, reader, seconds=30.0)
        assert len(reader.events) == 7 and reader.gaps == []


def test_entry_nodes_of_a_unit_of_units_make_ranges_of_their_own() -> None:
    """Events of `w` enter `z` at `a`, and go on to the other cluster of `z` in its ranges."""
    with NetworkWorld(1) as world:
        world.add("far", "w.c1", require_signatures=True)
        world.add("a", "z.c1", gateways=["far"], require_signatures=True)
        world.add("b", "z.c2", gateways=["a"], verify="always", require_signatures=True)
        world.add("n", "z.c2", join=["b"], verify="always", require_signatures=True)
        world.run(5.0)
        publishers = [Publisher(world.client(f"at-{each}", each)) for each in ("far", "a")]
        reader = Reader(world, world.client("reader", "n"), INTERESTS[1])
        world.run_until(lambda: reader.is_flowing)
        for altitude in (100, 1000, 200, 1000, 1000):
            for each in publishers:
                each.publish(altitude=altitude)
            world.run(0.3)
        read(world, reader, seconds=70.0)
        reader.check(read_logs(world))
        assert len(reader.events) == 6 and reader.gaps == []
        for name in world.names:
            assert not world.network_of(name).signatures.rejected, name
        # The origin is in `z`: its range for the cluster of `b` is its own.
        malicious = MaliciousNode(world, "a", world["a"].event_log.origin, "b")
        malicious.attack = strip_the_statement
        publishers[1].publish()
        read(world, reader, seconds=3.0)
        assert world.network_of("b").signatures.rejected.keys() == {"a"}


@pytest.mark.parametrize("must_sign", [False, True])
def test_a_node_of_an_earlier_version_may_remove_statements(
    must_sign: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with NetworkWorld(1) as world:
        world.add("a", "one")
        with monkeypatch.context() as patch:
            earlier = tuple(each for each in PROTOCOL_VERSIONS if each < PROOF_VERSION)
            patch.setattr("broker.cluster.network_factory.PROTOCOL_VERSIONS", earlier)
            world.add("m", "two", gateways=["a"])
        world.add("b", "three", gateways=["m"], require_signatures=must_sign)
        world.run(4.0)
        publisher = Publisher(world.client("publisher", "a"))
        reader = Reader(world, world.client("reader", "b"), INTERESTS[1])
        world.run_until(lambda: reader.is_flowing)
        for altitude in (100, 1000, 200, 1000, 1000):
            publisher.publish(altitude=altitude)
            world.run(0.3)
        read(world, reader, seconds=70.0)
        rejected = world.network_of("b").signatures.rejected
        assert bool(rejected) == must_sign and reader.gaps == []
        if not must_sign:
            reader.check(read_logs(world))
            assert len(reader.events) == 3
