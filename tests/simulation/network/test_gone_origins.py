"""A majority of its cluster, or an operator, ends the wait for an origin."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from broker.client.received import Gap
from broker.cluster import gone_origins
from broker.cluster.address import Address
from broker.cluster.replicas.page_frame import make_page_frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.messages import LogLost
from broker.cluster.traffic.missing_range import GONE_PATIENCE
from broker.errors import BadName
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read

#: Seconds until events of a gone origin are given up, and until they are not awaited any more.
GONE, PATIENCE = GONE_PATIENCE + 40.0, 300.0


class Site:
    """`a` logs 6 to 10 for the reader at `d`, in another cluster, and dies before sending them."""

    def __init__(self, members: Iterable[str] = "abc", without_key: str = "") -> None:
        self.world = world = NetworkWorld(1)
        self.members = list(members)
        for name in self.members:
            if name == without_key:
                with pytest.MonkeyPatch.context() as earlier:
                    earlier.setattr("broker.node.log_opening.load_node_key", lambda _: None)
                    world.add(name, "c", join=self.members[:1] if name != "a" else [])
            else:
                world.add(name, "c", join=self.members[:1] if name != "a" else [])
        world.add("d", "two", gateways=self.members, gap_timeout=PATIENCE)
        world.run(8.0)
        self.reader = Reader(world, world.client("reader", "d"))
        self.publisher = Publisher(world.client("publisher", "a"))
        world.run_until(lambda: self.reader.is_flowing)
        self.publish(5)
        read(world, self.reader, seconds=5.0)
        self.origin = world["a"].event_log.origin
        for name in self.members:
            world.cut(name, "d", refuse=True)
        self.publish(5)
        world.run(20.0)
        for name in self.members:
            world.heal(name, "d")
        state = world.network_of("a").state
        assert state is not None
        world.run_until(lambda: any(each.unit == ("two",) for each in state.destinations()))
        self.publisher.publish()
        traffic = world.network_of("d").traffic
        assert traffic is not None
        self.receiver = traffic.receiver
        world.run_until(lambda: self.receiver.incomplete_origins > 0)
        world.kill("a")

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.publisher.publish()
        self.world.run(1.0)

    def give_up(self, *names: str) -> None:
        for name in names:
            assert self.world.network_of(name).gone.give_up(self.origin)

    def certified_at(self) -> set[str]:
        running = self.world.running
        return {n for n in running if self.origin in self.world.network_of(n).gone.certificates}

    def read(self, seconds: float) -> list[int]:
        read(self.world, self.reader, seconds=seconds)
        return [event.place.offset for event in self.reader.events]

    def gaps(self) -> list[tuple[int, int, str]]:
        def bounds(gap: Gap) -> tuple[int, int, str]:
            return gap.first.offset, gap.last.offset, gap.reason

        return list(map(bounds, self.reader.gaps))


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.world.close()


def test_a_majority_of_the_last_membership_ends_the_wait_with_one_gap(site: Site) -> None:
    for name in ("b", "c"):
        site.world.kill(name)
        site.world.start(name)
        site.world.run_until(lambda: site.world.are_linked("b", "c"))
        # The only other node that they know from their settings is dead.
        site.world.run(5.0)
    site.give_up("b", "c")
    site.world.run(15.0)
    assert site.certified_at() == {"b", "c"}
    snapshot = site.world.network_of("b").gone.snapshot()
    assert snapshot == {site.origin: {"signed_by": ["b", "c"], "given_up": True}}
    for name in ("b", "c"):
        site.world.kill(name)
        site.world.start(name)
    site.world.run(15.0)
    assert site.certified_at() == {"b", "c"}, "it outlives a restart"
    assert site.read(GONE) == [1, 2, 3, 4, 5, 11]
    assert site.gaps() == [(6, 10, "lost")]
    assert site.read(PATIENCE) == [1, 2, 3, 4, 5, 11] and len(site.gaps()) == 1


def test_members_vote_when_the_origin_is_away_for_long(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.world.run(20.0)
    assert site.certified_at() == set()
    monkeypatch.setattr(gone_origins, "PEER_EXPIRY", 30.0)
    site.world.run(40.0)
    assert site.certified_at() == {"b", "c"}
    assert site.read(GONE) == [1, 2, 3, 4, 5, 11] and site.gaps() == [(6, 10, "lost")]


def forge_reports(site: Site) -> None:
    """`c` sends reports in the name of each node that `d` may ask, and to `b` too."""
    world = site.world
    forger = world.network_of("c")
    (certificate,) = [forger.gone.certificate_of(site.origin) or b"forged"]
    for source in (Address(("c",), name) for name in "abc"):
        for target in (Address(("two",), "d"), Address(("c",), "b")):
            for proof in (b"", certificate):
                report = LogLost(target, source, 9, site.origin, None, proof)
                forger.driver.send_routed(report)
    world.run(5.0)


@pytest.mark.parametrize("returns", [False, True])
def test_one_member_ends_no_wait(site: Site, returns: bool) -> None:
    site.give_up("c")
    site.world.run(15.0)
    forge_reports(site)
    assert site.certified_at() == set()
    rejected = site.world.network_of("d").signatures.rejected
    assert sum(rejected.values()) == 6 and set(rejected) <= {"b", "c"}
    assert set(site.world.network_of("b").signatures.rejected) == {"c"}
    assert site.read(GONE) == [1, 2, 3, 4, 5] and site.gaps() == []
    if returns:
        site.world.start("a")
        assert site.read(60.0) == list(range(1, 12)) and site.gaps() == []
    else:
        assert site.read(PATIENCE) == [1, 2, 3, 4, 5, 11]
        assert site.gaps() == [(6, 10, "unreachable")]


def test_an_origin_that_returns_is_not_gone_any_more(site: Site) -> None:
    site.give_up("b", "c")
    site.world.run(15.0)
    assert site.certified_at() == {"b", "c"}
    site.world.start("a")
    assert site.read(40.0) == list(range(1, 12)) and site.gaps() == []
    assert site.certified_at() == set()
    assert not any(site.world.network_of(n).gone.given_up for n in "bc")


def test_an_origin_that_was_cut_off_signs_again(site: Site) -> None:
    """It has run all the time: its last membership is older than the votes."""
    world = site.world
    world.start("a")
    site.read(60.0)
    for name in "bc":
        world.cut("a", name, refuse=True)
    world.run(40.0)
    site.give_up("b", "c")
    world.run(15.0)
    assert site.certified_at() == {"b", "c"}
    for name in "bc":
        world.heal("a", name)
    world.run(60.0)
    assert site.certified_at() == set()


def test_operator_of_a_node_gives_an_origin_up_for_that_node() -> None:
    site = Site("a")
    with site.world as world:
        operator = world.client("operator", "d")
        answer = world.wait(operator.ask("log-give-up", origin=site.origin))
        expected = {"origin": site.origin, "changed": True, "given_up": True, "certified": False}
        assert answer == expected
        assert not world.wait(operator.ask("log-give-up", origin=site.origin))["changed"]
        for origin in ("far", "", world["d"].event_log.origin):
            with pytest.raises(BadName):
                world.wait(operator.ask("log-give-up", origin=origin))
        assert site.read(GONE) == [1, 2, 3, 4, 5, 11] and site.gaps() == [(6, 10, "lost")]
        world.kill("d")
        world.start("d")
        gone = world.network_of("d").gone
        assert gone.is_gone(site.origin)
        operator = world.client("operator", "d", incarnation=2)
        answer = world.wait(operator.ask("log-give-up", origin=site.origin, undo="yes"))
        assert answer == {**expected, "given_up": False} and not gone.is_gone(site.origin)


@pytest.mark.parametrize("has_key", [True, False])
def test_node_without_its_log_reports_it_with_its_key_alone(has_key: bool) -> None:
    site = Site("a")
    with site.world as world:
        data = world._folder / "a"
        if has_key:
            shutil.rmtree(data / "log")
        else:
            world.lose_disk("a")
        world.start("a")
        assert site.read(GONE) == [1, 2, 3, 4, 5] + [11] * has_key
        assert site.gaps() == [(6, 10, "lost")] * has_key
        if not has_key:
            assert not world.network_of("d").signatures.rejected, "it reports nothing"
            site.read(PATIENCE)
            assert site.gaps() == [(6, 10, "unreachable")]


def test_log_of_an_earlier_version_is_reported_without_a_key() -> None:
    site = Site("a", without_key="a")
    with site.world as world:
        world.lose_disk("a")
        world.start("a")
        assert site.read(80.0) == [1, 2, 3, 4, 5, 11] and site.gaps() == [(6, 10, "lost")]


def test_members_of_an_earlier_version_have_no_vote() -> None:
    site = Site("abc", without_key="c")
    with site.world:
        site.give_up("b", "c")
        site.world.run(15.0)
        assert site.certified_at() == set()
        membership = site.world.network_of("b").gone.memberships[site.origin]
        assert [name for name, _ in membership.members] == ["a", "b"]


@pytest.mark.parametrize("ahead", [1_000, 1 << 40])
@pytest.mark.parametrize("answers", [False, True])
def test_places_that_a_member_invents_stop_no_origin_that_returns(
    site: Site, ahead: int, answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It announces the end of a replica, or names it in its answer to the nodes that wait."""
    world = site.world
    world.start("a")
    assert site.read(60.0) == list(range(1, 12))
    for name in "bcd":
        world.cut("a", name, refuse=True)
    world.run(40.0)
    epoch, offset = world["d"].event_log.coverage[site.origin]
    invented = (epoch, offset + ahead)
    if answers:
        remote_logs: Any = world["c"].recovery.context.remote_logs
        monkeypatch.setattr(remote_logs._known_origins, "furthest_place", lambda _: invented)
        site.give_up("d")
    else:
        span = Range(Address(("two",), "d"), invented, invented)
        frame = make_page_frame(site.origin, Address(("c",), "c"), [span], [])
        world.network_of("c").driver.send_frame(frame)
    site.read(PATIENCE + 60.0)
    is_taken = answers and ahead == 1_000
    assert site.gaps() == [(12, 1_011, "lost")] * is_taken
    for name in "bcd":
        world.heal("a", name)
    world.run(60.0)
    site.publish(3)
    site.read(120.0)
    numbers = [event.event_id.sequence_number for event in site.reader.events]
    assert numbers == list(range(1, 15)) and len(site.gaps()) == is_taken


@pytest.mark.parametrize("is_away", [False, True])
def test_a_member_names_no_events_of_another_node_as_unavailable(site: Site, is_away: bool) -> None:
    """Inside a cluster frames are not checked by default, but for that."""
    world = site.world
    world.start("a")
    near = Reader(world, world.client("near", "b"))
    world.run_until(lambda: near.is_flowing)
    site.publish(2)
    read(world, near, site.reader, seconds=10.0)
    had = [event.place.offset for event in near.events]
    mark = world["b"].event_log.coverage[site.origin]
    if is_away:
        world.kill("a")
        world.run(40.0)
    upto = (mark[0], mark[1] + 5)
    span = Range(Address(("c",), "b"), mark, upto, unavailable_upto=upto)
    for source in "ac":
        frame = make_page_frame(site.origin, Address(("c",), source), [span], [])
        world.network_of("c").driver.send_frame(frame)
    world.run(5.0)
    assert dict(world.network_of("b").signatures.rejected) == {"c": 2}
    if is_away:
        world.start("a")
        world.run(20.0)
    site.publish(2)
    read(world, near, seconds=20.0)
    offsets = [event.place.offset for event in near.events]
    assert near.gaps == [] and offsets == [*had, had[-1] + 1, had[-1] + 2]
