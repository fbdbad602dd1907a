"""Events of a group whose type a site lacks: they delay only their origin there, and come late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker.client.received import ReceivedEvent
from broker.event.order_entry import OrderEntry
from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transport_network import CARRIED
from tests.simulation.network.rcm_group import SiteGroup
from tests.simulation.network.rcm_transcripts import check_transcripts
from tests.simulation.network.test_type_distribution import report_text

VARIANTS = ("logical", "sequencer", "real-time", "hybrid")


class TypedGroup:
    """Sites n0, n1 and n2. The last one gets no answers about types, until `answer`."""

    def __init__(self, world: NetworkWorld, order: str) -> None:
        self.world = world
        self.group = SiteGroup(world, order, 3)
        self.network = self.group.network
        self.reader = self.network.subscribe("all-n2", "n2", durable="d")
        self.group.wait_until_connected("n0", "n1", "n2")
        self._receive = world["n2"]._neighbour_dtds.receive_message
        self.mute()

    def mute(self) -> None:
        exchange = self.world["n2"]._neighbour_dtds
        exchange.receive_message = lambda message: None  # type: ignore[method-assign]

    def answer(self) -> None:
        exchange = self.world["n2"]._neighbour_dtds
        del exchange.receive_message

    def add_type(self, name: str = "report", site: str = "n0") -> None:
        text = report_text().replace("report", name)
        operator = self.world.client(f"operator-{name}", site)
        self.world.wait(operator.ask("dtd-add", text.encode(), type=name, version="1.0"))
        self.world.run(1.0)

    def publish(self, site: str, name: str = "flight") -> None:
        self.network.publishers[int(site[1:])].publish(CARRIED, name=name)

    def events_of(self, site: str) -> list[ReceivedEvent]:
        self.reader.read()
        return [
            event
            for event in self.reader.events
            if event.order is not None and event.order.site == site
        ]

    def entries_of(self, site: str) -> list[OrderEntry]:
        return [event.order for event in self.events_of(site) if event.order is not None]

    def pass_event(self, site: str, limit: float) -> float:
        """Publish an event at a site. Return the time until the reader has it."""
        count, begin = len(self.events_of(site)), self.world.clock.seconds()
        self.publish(site)
        self.world.run_until(lambda: len(self.events_of(site)) > count, limit)
        return self.world.clock.seconds() - begin

    def settle(self) -> dict[str, list[OrderEntry]]:
        self.world.heal_transports()
        self.network.publish(3)
        self.network.settle(120.0)
        self.world.run(10.0)
        self.network.check_states()
        return check_transcripts(self.world, self.group.order, self.world.names, lost_commits=False)


@contextmanager
def typed_group(order: str, seed: int = 5) -> Iterator[TypedGroup]:
    with deterministic(seed), NetworkWorld(seed) as world:
        yield TypedGroup(world, order)


@pytest.mark.parametrize("order", VARIANTS)
def test_an_event_of_a_missing_type_delays_only_its_origin_and_comes_late(order: str) -> None:
    with typed_group(order) as typed:
        typed.add_type()
        delay = max(typed.pass_event(site, 2.0) for site in ("n1", "n2"))
        typed.publish("n0", "report")
        for _ in range(20):
            typed.publish("n0")
            for site in ("n1", "n2"):
                assert typed.pass_event(site, 2.0) < delay + 0.2
            typed.world.run(0.2)
        assert not any(entry.is_late for site in ("n1", "n2") for entry in typed.entries_of(site))
        assert typed.entries_of("n0") == []
        assert set(typed.group.statuses("n2").values()) == {"connected"}
        typed.answer()
        typed.world.run_until(lambda: len(typed.events_of("n0")) == 21, 40.0)
        assert b"<report>" in typed.events_of("n0")[0].document
        waiting = typed.entries_of("n0")
        assert [entry.number for entry in waiting] == sorted(entry.number for entry in waiting)
        assert all(
            entry.is_late and entry.before and entry.after and not entry.is_recovered
            for entry in waiting[:20]
        )
        logs = typed.settle()
        assert not any(entry.is_late for name in ("n0", "n1") for entry in logs[name])
