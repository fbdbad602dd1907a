"""Events of a group whose type a site lacks: they delay only their origin there, and come late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from broker.cluster import missing_types, type_waits
from broker.cluster.withheld_events import PAGE_BYTES
from broker.event.order_entry import OrderEntry
from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transport_network import CARRIED
from tests.simulation.network.rcm_group import SiteGroup
from tests.simulation.network.rcm_transcripts import check_transcripts, read_entries
from tests.simulation.network.test_rcm import OUTAGES, Group
from tests.simulation.network.test_type_distribution import report_text

VARIANTS = ("logical", "sequencer", "real-time", "hybrid")


def mute(world: NetworkWorld, *names: str) -> None:
    """Let nodes get no answers about types, until `answer` or their restart."""
    for name in names:
        exchange = world[name]._neighbour_dtds
        exchange.receive_message = lambda message: None  # type: ignore[method-assign]


def answer(world: NetworkWorld, *names: str) -> None:
    for name in names:
        vars(world[name]._neighbour_dtds).pop("receive_message", None)


def add_type(world: NetworkWorld, node: str, name: str) -> None:
    operator = world.client(f"operator-{name}", node)
    text = report_text().replace("report", name).encode()
    world.wait(operator.ask("dtd-add", text, type=name, version="1.0"))


class TypedGroup:
    """Sites n0, n1 and n2. The last one gets no answers about types, until `answer`."""

    def __init__(self, world: NetworkWorld, order: str) -> None:
        self.world = world
        self.group = SiteGroup(world, order, 3)
        self.network = self.group.network
        self.reader = self.network.subscribe("all-n2", "n2", durable="d")
        self.group.wait_until_connected("n0", "n1", "n2")
        self.mute()

    def mute(self) -> None:
        mute(self.world, "n2")

    def answer(self) -> None:
        answer(self.world, "n2")

    def restart(self) -> None:
        """Kill n2 and start it, without answers about types."""
        self.network.kill("n2")
        self.world.start("n2")
        self.mute()

    def add_type(self, name: str = "report") -> None:
        add_type(self.world, "n0", name)
        self.world.run(1.0)

    def publish(self, site: str, name: str = "flight", size: int = 0) -> None:
        self.network.publishers[int(site[1:])].publish(CARRIED, name=name, size=size)

    def publish_waiting(self, count: int = 3) -> None:
        """Publish at n0 an event of a type that n2 lacks, and others of all sites behind it."""
        self.publish("n0", "report")
        for _ in range(count):
            for site in self.world.names:
                self.publish(site)
            self.world.run(0.3)

    def entries_of(self, site: str) -> list[OrderEntry]:
        self.reader.read()
        entries = [event.order for event in self.reader.events if event.stream == CARRIED]
        return [entry for entry in entries if entry is not None and entry.site == site]

    def wait_for(self, site: str, count: int, limit: float = 40.0) -> list[OrderEntry]:
        self.world.run_until(lambda: len(self.entries_of(site)) >= count, limit)
        return self.entries_of(site)

    def pass_event(self, site: str, limit: float) -> float:
        """Publish an event at a site. Return the time until the reader has it."""
        count, begin = len(self.entries_of(site)), self.world.clock.seconds()
        self.publish(site)
        self.wait_for(site, count + 1, limit)
        return self.world.clock.seconds() - begin

    def settle(self, *, lost_commits: bool = False) -> dict[str, list[OrderEntry]]:
        self.network.publish(2)
        self.network.settle(120.0)
        self.world.run(10.0)
        self.network.check_states()
        return check_transcripts(
            self.world, self.group.order, self.world.names, lost_commits=lost_commits
        )


@contextmanager
def typed_group(order: str, seed: int = 5) -> Iterator[TypedGroup]:
    with deterministic(seed), NetworkWorld(seed) as world:
        typed = TypedGroup(world, order)
        typed.add_type()
        yield typed


@pytest.mark.parametrize("order", VARIANTS)
def test_an_event_of_a_missing_type_delays_only_its_origin_and_comes_late(order: str) -> None:
    with typed_group(order) as typed:
        delay = max(typed.pass_event(site, 2.0) for site in ("n1", "n2"))
        typed.publish("n0", "report")
        for _ in range(6):
            typed.publish("n0")
            for site in ("n1", "n2"):
                assert typed.pass_event(site, 2.0) < delay + 0.2
            typed.world.run(1.0)
        assert not any(entry.is_late for site in ("n1", "n2") for entry in typed.entries_of(site))
        assert typed.entries_of("n0") == []
        assert set(typed.group.statuses("n2").values()) == {"connected"}
        typed.answer()
        waiting = typed.wait_for("n0", 7)
        assert [entry.number for entry in waiting] == list(range(1, 8))
        assert all(entry.is_late and entry.before and entry.after for entry in waiting[:6])
        assert not any(entry.is_recovered for entry in waiting)
        logs = typed.settle()
        assert not any(entry.is_late for name in ("n0", "n1") for entry in logs[name])


def test_the_first_event_of_a_new_type_is_in_time_at_all_sites_that_can_get_it() -> None:
    with typed_group("hybrid") as typed:
        typed.answer()
        for site in typed.world.names:
            add_type(typed.world, site, f"of-{site}")
            typed.publish(site, f"of-{site}")
        for site in typed.world.names:
            typed.publish(site)
        typed.world.run(0.6)
        for name in typed.world.names:
            entries = read_entries(typed.world, name)
            assert len(entries) == 6 and not any(entry.is_late for entry in entries)


@pytest.mark.parametrize("order", ["hybrid", pytest.param("sequencer", marks=pytest.mark.soak)])
def test_a_kill_and_a_full_disk_while_an_event_waits_for_its_type_lose_nothing(order: str) -> None:
    with typed_group(order) as typed:
        typed.publish_waiting()
        typed.world.set_disk_full("n2", True)
        typed.publish_waiting()
        typed.world.run(2.0)
        typed.world.set_disk_full("n2", False)
        typed.wait_for("n1", 6)
        assert typed.entries_of("n0") == []
        typed.restart()
        typed.group.wait_until_connected("n0", "n1", "n2")
        typed.publish_waiting()
        typed.wait_for("n1", 9)
        assert typed.entries_of("n0") == []
        typed.answer()
        waiting = typed.wait_for("n0", 12)
        assert [entry.number for entry in waiting] == sorted({entry.number for entry in waiting})
        typed.settle(lost_commits=True)


def test_an_origin_returns_while_its_event_waits_for_its_type() -> None:
    with typed_group("hybrid") as typed:
        typed.publish_waiting()
        typed.network.cut("n0")
        typed.world.run(7.0)
        typed.publish_waiting()
        assert typed.group.statuses("n2")["n0"] == "suspected"
        typed.network.heal("n0")
        typed.world.run(5.0)
        assert set(typed.group.statuses("n2").values()) == {"connected"}
        assert typed.entries_of("n0") == []
        typed.answer()
        assert all(entry.is_late for entry in typed.wait_for("n0", 8)[:7])
        typed.settle()


def test_an_event_whose_type_never_comes_is_a_gap_and_later_ones_go_on() -> None:
    with typed_group("hybrid") as typed:
        typed.world.change_settings("n2", gap_timeout=20.0)
        typed.restart()
        typed.group.wait_until_connected("n0", "n1", "n2")
        begin = typed.world.clock.seconds()
        typed.publish_waiting()
        typed.wait_for("n1", 3, 1.0)
        waiting = typed.wait_for("n0", 3)
        assert 19.0 < typed.world.clock.seconds() - begin < 23.0
        assert [entry.number for entry in waiting] == [2, 3, 4] and waiting[0].is_late
        (gap,) = typed.reader.gaps
        assert gap.reason == "unknown-type" and gap.count == 1
        typed.publish("n1")
        typed.world.run(2.0)
        names = typed.world.names
        check_transcripts(typed.world, "hybrid", names, lost_commits=False)


def test_events_of_many_missing_types_are_bounded_and_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type_waits, "MOST_BYTES", 600_000)
    monkeypatch.setattr(missing_types, "MOST_TYPES", 3)
    with typed_group("hybrid") as typed:
        names = [f"report{number}" for number in range(5)]
        for name in names:
            typed.add_type(name)
        waits = typed.world.network_of("n2").driver.ordered.type_waits
        for _ in range(8):
            for name in names:
                typed.publish("n0", name, size=40_000)
            assert typed.pass_event("n1", 1.0) < 0.5
            typed.world.run(1.0)
            # The last range may be a page.
            assert waits.waiting_bytes < 600_000 + PAGE_BYTES
            assert len(typed.world["n2"].types.pending_dtds) <= 4
        assert typed.entries_of("n0") == []
        typed.answer()
        typed.wait_for("n0", 8 * len(names), 200.0)
        assert waits.waiting_bytes == 0
        typed.settle()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 41))
@pytest.mark.parametrize("order", VARIANTS)
def test_schedules_with_missing_types_leave_one_transcript(order: str, seed: int) -> None:
    with deterministic(seed), NetworkWorld(seed) as world:
        random, group = Random(seed), Group(world, order, 3 + seed % 2)
        for step in range(14):
            kind = random.choice(("type", "type", "answer", "other", "other"))
            if kind == "type":
                site, name = random.choice(world.names), f"report{step}"
                mute(
                    world, *(each for each in world.names if each != site and random.random() < 0.6)
                )
                add_type(world, site, name)
                world.run(random.choice((0.0, 0.5)))
                for each in random.choices((name, "flight"), k=4):
                    group.network.publishers[int(site[1:])].publish(CARRIED, name=each)
            elif kind == "answer":
                answer(world, *world.names)
            else:
                group.disturb(random, (*OUTAGES, "fill") if seed % 2 else OUTAGES)
            world.run(random.choice((0.0, 0.5, 2.0)))
        answer(world, *world.names)
        world.run(40.0)
        group.settle()
