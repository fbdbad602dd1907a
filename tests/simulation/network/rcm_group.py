"""Whole nodes as the sites of a group, in virtual time, with an operator who changes the sites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import Deferred

from broker.config.stacks import StackInstance
from broker.event.order_entry import OrderEntry, decode_order_entry
from broker.streams.contract import FlowBatch
from broker.streams.group_operation import ISitesTransport
from broker.streams.instance import TransportInstance
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.transport_network import INSTANCE, TransportNetwork
from plugins.rcm.effects import DeliverMessage
from plugins.rcm.membership import Membership
from plugins.rcm.options import RcmOptions
from plugins.rcm.plugin import rcm_transport
from plugins.rcm.stack import rcm_links
from plugins.rcm.transport import RcmTransport
from tests.simulation.network.rcm_transcripts import check_transcripts


def address_of(name: str, port: int = 9000) -> str:
    return f"tcp:host=127.0.0.1:port={port + int(name[1:])}"


@contextmanager
def recorded_deliveries() -> Iterator[dict[str, list[object]]]:
    """Record ids of events and changes at each node, in the order of their delivery."""
    found: dict[str, list[object]] = {}
    deliver_events, deliver_change = TransportInstance.deliver, Membership.deliver

    def deliver(instance: TransportInstance, batch: FlowBatch) -> None:
        entries = [decode_order_entry(event.annotation) for event in batch.events]
        ids = [each.id for each in entries if each is not None and not each.is_recovered]
        found.setdefault(instance.node, []).extend(ids)
        deliver_events(instance, batch)

    def change(membership: Membership, message: DeliverMessage) -> None:
        found.setdefault(membership.node, []).append((message.id, message.late))
        deliver_change(membership, message)

    with (
        patch.object(TransportInstance, "deliver", deliver),
        patch.object(Membership, "deliver", change),
    ):
        yield found


class SiteGroup:
    """Sites `n0`, `n1`, ..., each with a publisher; further ones join and leave."""

    def __init__(self, world: NetworkWorld, order: str, count: int) -> None:
        self.world = world
        self.order = order
        names = [f"n{each}" for each in range(count)]
        self.configured = dict.fromkeys(names, tuple(names))
        """Sites in the configuration of each."""
        self.network = TransportNetwork(world, (rcm_transport, rcm_links), self._make_stack)
        self.network.add_nodes(count)
        for name in names:
            self.add_publisher(name)

    def _make_stack(self, number: int) -> StackInstance:
        sites = {each: address_of(each) for each in self.configured[f"n{number}"]}
        options = RcmOptions(sites=sites, order=self.order)
        return StackInstance(INSTANCE, use="rcm", options=options)

    def add_publisher(self, name: str) -> Publisher:
        client = self.world.client(f"publisher-{name}", name)
        publisher = Publisher(self.network.observer.watch(client))
        self.network.publishers.append(publisher)
        return publisher

    def remove_publisher(self, name: str) -> None:
        publishers = self.network.publishers
        publishers[:] = [each for each in publishers if each.client.client_id[10:] != name]

    def add_newcomer(self, name: str, *known: str) -> None:
        """Start a node whose configuration has some sites and itself."""
        self.configured[name] = (*known, name)
        self.world.add(name, "one", start=False, join=self.world.names[:2])
        self.network.set_carried(name, True)
        self.world.start(name)

    def instance(self, name: str) -> TransportInstance:
        transports = self.world[name].transports
        assert transports is not None
        return next(each for each in transports if each.instance == INSTANCE)

    def change(self, at: str, action: str, site: str, address: str = "") -> Deferred[Any]:
        """Change the sites by an operator of a node."""
        changed: Any = self.instance(at).ask(
            ISitesTransport, lambda transport: transport.change_sites(action, site, address)
        )
        return changed  # type: ignore[no-any-return]

    def admit(self, at: str, site: str, address: str = "") -> dict[str, Any]:
        found = self.world.wait(self.change(at, "admit", site, address or address_of(site)))
        return dict(found)

    def remove(self, at: str, site: str) -> dict[str, Any]:
        return dict(self.world.wait(self.change(at, "remove", site)))

    def transport(self, name: str) -> RcmTransport:
        transport: Any = self.instance(name)._transport
        assert isinstance(transport, RcmTransport)
        return transport

    def membership(self, name: str) -> Membership:
        return self.transport(name)._membership

    def error(self, name: str) -> str:
        return self.instance(name).error

    def refusal(self, name: str) -> str:
        return self.instance(name).refusal

    def statuses(self, name: str) -> dict[str, str]:
        """Return what a node tells of the other sites."""
        return {
            each["site"]: each["status"] for each in self.network.state_of(name).get("peers", ())
        }

    def wait_until_connected(self, *names: str, among: Sequence[str] | None = None) -> None:
        """Wait until sites see each other as connected, and know no other site.

        With `among` only the statuses of these count.
        """
        expected = {
            name: dict.fromkeys((each for each in names if each != name), "connected")
            for name in names
        }

        def find() -> dict[str, dict[str, str]]:
            return {
                name: {
                    site: status
                    for site, status in self.statuses(name).items()
                    if among is None or site in among
                }
                for name in names
            }

        self.world.run_until(lambda: find() == expected, 100.0)

    def settle(self, names: Sequence[str]) -> dict[str, list[OrderEntry]]:
        """Wait for all events, and compare the transcripts of sites."""
        self.world.heal_transports()
        self.network.publish(3)
        self.network.settle(120.0)
        self.world.run(40.0)
        self.network.check_states(names)
        # An event may be late behind a change, which is in no log.
        return check_transcripts(self.world, self.order, names, lost_commits=True)
