"""Tickets of clients at whole nodes of a mesh, with and without a key of the network."""

from __future__ import annotations

import unittest
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from broker.config.stacks import DEFAULT_STACK
from broker.event.envelope import SecurityLevel
from broker.event.origin import new_origin, origin_has_key
from broker.event.place import Mark, Place
from broker.event.stream import StreamPattern
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.node_key import FILE_NAME, load_node_key
from broker.streams.contract import CarriedEvent, CarriedInterest, FlowBatch
from broker.streams.leaf_contract import LeafContext, LeafRequest
from broker.streams.ticket import (
    ClientTicket,
    Ticket,
    derive_ticket_key,
    encode_ticket,
    sign_ticket,
)
from broker.testing.transport_case import TransportCase
from broker.testing.transport_network import INSTANCE, PATTERN, TransportNetwork
from plugins.dcp.leaf import DcpLeaf
from plugins.dcp.options import DcpOptions
from plugins.dcp.plugin import dcp_transport
from plugins.dcp.stack import DcpLinkOptions, dcp_links
from tests.simulation.network.test_mesh_clients import address_of, is_held

SECRET = b"a key of all the nodes"


class Owner:
    """Implements `ILeafOwner`."""

    def __init__(self) -> None:
        self.events: list[CarriedEvent] = []
        self.joins = 0
        self.missing = 0
        self._end: dict[str, Mark] = {}

    def mesh_joined(self, marks: Mapping[str, Mark]) -> None:
        self.joins += 1

    def mesh_lost(self, reason: str) -> None:
        """Do nothing: the leaf has the reason."""

    def receive_batch(self, batch: FlowBatch) -> None:
        self.events += batch.events
        self.missing += batch.after > self._end.get(batch.flow, batch.after)
        self._end[batch.flow] = batch.upto


def count_clients(network: TransportNetwork) -> int:
    return sum(each["name"] == "desk#1" for each in network.state_of("n0")["children"])


def own_key(network: TransportNetwork, name: str) -> SigningKey:
    return load_node_key(network.world._folder / name)


class TestTickets(TransportCase, unittest.TestCase):
    plugin = dcp_transport
    links = dcp_links
    link_options = DcpLinkOptions()

    def node_options(self, number: int) -> DcpOptions:
        return DcpOptions(udp=address_of(number), roots=(address_of(0),), parents=1)

    @contextmanager
    def keyed_mesh(self, **network_settings: Any) -> Iterator[TransportNetwork]:
        """Start a root and a router with a key, and a publisher at the root. The settings are those
        of the root."""
        with self.network(0, 2, feed=DEFAULT_STACK) as network:
            world = network.world
            for name in world.names:
                network.kill(name)
                world.change_settings(name, key_file=world.key_file(SECRET))
            world.change_settings("n0", **network_settings)
            for name in world.names:
                world.start(name)
            network.add_publisher("n0")
            world.run_until(lambda: len(network.state_of("n1")["parents"]) == 1)
            yield network

    def join(
        self, network: TransportNetwork, ticket: bytes, pattern: str = PATTERN
    ) -> tuple[DcpLeaf, Owner]:
        """Let a client show a ticket to the root."""
        world, owner = network.world, Owner()
        request = LeafRequest(
            name="desk#1",
            stack=INSTANCE,
            patterns=[PATTERN],
            description={"addresses": [address_of(0)], "mtu": 1_400},
            ticket=ClientTicket.derive(ticket, derive_ticket_key(SECRET)),
            interest=CarriedInterest(StreamPattern.parse(pattern), "true()", {}),
            parents=1,
        )
        context = LeafContext(
            open_port=lambda host, receive: world.datagrams.open_port(receive),
            clock=world.clock,
            random=world.random,
            wall_clock=world.wall_clock,
        )
        return DcpLeaf(dcp_transport, request, context, owner), owner

    @staticmethod
    def ticket(
        network: TransportNetwork,
        secret: bytes = SECRET,
        issuer: str = "n1",
        key: SigningKey | None = None,
        **changed: Any,
    ) -> bytes:
        """Return a ticket of a node, with its key; empty: a ticket of an earlier version."""
        fields = {
            "stack": INSTANCE,
            "client_id": "desk",
            "patterns": (PATTERN,),
            "clearance": 1,
            "expires": network.world.wall_clock() + 60_000,
            **changed,
        }
        ticket = Ticket(**fields)
        if issuer:
            origin = network.world[issuer].event_log.origin
            ticket = sign_ticket(ticket, origin, own_key(network, issuer))
            assert ticket.issuer is not None
            if key is not None:
                forged = sign_ticket(ticket, new_origin(0, key.public.raw), key).issuer
                assert forged is not None
                ticket = replace(ticket, issuer=replace(forged, origin=origin))
        return encode_ticket(ticket, derive_ticket_key(secret))

    def test_bad_tickets_are_refused_and_counted_while_others_go_on(self) -> None:
        with self.keyed_mesh() as network:
            good, owner = self.join(network, self.ticket(network))
            past = network.world.wall_clock() - 31_000
            bad: Sequence[tuple[str, bytes, str]] = [
                ("ticket missing", b"", PATTERN),
                ("ticket forged", self.ticket(network, b""), PATTERN),
                ("ticket forged", self.ticket(network, key=SigningKey.generate()), PATTERN),
                ("ticket forged", self.ticket(network, key=own_key(network, "n0")), PATTERN),
                ("ticket expired", self.ticket(network, expires=past), PATTERN),
                ("ticket of another mesh", self.ticket(network, stack="other"), PATTERN),
                ("pattern", self.ticket(network, patterns=("radar.x",)), PATTERN),
            ]
            leaves = [self.join(network, ticket, pattern) for _, ticket, pattern in bad]
            network.world.run(1.0)
            network.publish(10)
            network.world.run(2.0)

            def have_all_tried_equally_often() -> bool:
                counts = network.state_of("n0")["refusals"]
                return bool(counts["ticket forged"] == 3 * counts["ticket expired"])

            # An attempt may be under way.
            network.world.run_until(have_all_tried_equally_often)
            refusals = network.state_of("n0")["refusals"]
            for (reason, _, _), (leaf, stranger) in zip(bad, leaves, strict=True):
                self.assertGreater(refusals[reason], 0, reason)
                self.assertEqual((stranger.joins, stranger.events), (0, []), reason)
                self.assertEqual(leaf.parents, [])
                leaf.leave()
            self.assertEqual(good.parents, ["n0"])
            self.assertEqual(len(owner.events), 10)
            # The node itself is a child as before.
            self.assertEqual(len(network.state_of("n1")["parents"]), 1)
            good.leave()

    def test_events_above_the_clearance_of_a_ticket_do_not_reach_the_client(self) -> None:
        with self.keyed_mesh() as network:
            leaf, owner = self.join(network, self.ticket(network, clearance=0))
            network.world.run(2.0)
            network.publish(2, level=SecurityLevel.LOW)
            network.publish(3, level=SecurityLevel.MED)
            network.publish(2, level=SecurityLevel.LOW)
            network.world.run(5.0)
            self.assertEqual([each.level for each in owner.events], [0] * 4)
            self.assertGreater(owner.missing, 0)
            leaf.leave()

    def levels_read(self, network: TransportNetwork, ticket: bytes) -> list[int]:
        leaf, owner = self.join(network, ticket)
        network.world.run(2.0)
        network.publish(2, level=SecurityLevel.LOW)
        network.publish(3, level=SecurityLevel.MED)
        network.publish(2, level=SecurityLevel.LOW)
        network.world.run(5.0)
        leaf.leave()
        network.world.run(1.0)
        return [each.level for each in owner.events]

    def test_a_ticket_has_no_higher_clearance_than_the_link_to_its_issuer(self) -> None:
        """Also one that a member has made for a log of its invention, or without a signature."""
        with self.keyed_mesh(untrusted_clearance=SecurityLevel.LOW) as network:
            stranger = SigningKey.generate()
            expires = network.world.wall_clock() + 900_000
            plain = Ticket(INSTANCE, "desk", (PATTERN,), 1, expires)
            invented = sign_ticket(plain, new_origin(0, stranger.public.raw), stranger)
            for ticket in (plain, invented):
                encoded = encode_ticket(ticket, derive_ticket_key(SECRET))
                self.assertEqual(self.levels_read(network, encoded), [0] * 4)
            known = self.levels_read(network, self.ticket(network))
            self.assertEqual(sorted(known), [0, 0, 0, 0, 1, 1, 1])
        with self.keyed_mesh(cleartext_clearance=SecurityLevel.LOW) as network:
            self.assertEqual(self.levels_read(network, self.ticket(network)), [0] * 4)

    def test_recorded_datagrams_join_nothing_and_floods_shut_nobody_out(self) -> None:
        with self.keyed_mesh() as network:
            world, root = network.world, ("127.0.0.1", 9_000)
            recorded: list[bytes] = []

            def record(datagram: bytes, source: object, target: object) -> bool:
                if isinstance(target, tuple) and address_of(0) == f"{target[0]}:{target[1]}":
                    nonlocal root
                    root = target
                    recorded.append(datagram)
                return True

            world.datagrams.filter = record
            first, owner = self.join(network, self.ticket(network))
            world.run_until(lambda: owner.joins == 1)
            seen = list(recorded)
            strangers = [
                world.datagrams.bind(("127.0.0.98", number), lambda batch: None)
                for number in range(1, 151)
            ]

            def flood() -> None:
                for each in strangers:
                    each.send([*seen[:20], bytes(100)], root)

            flood()
            world.run(1.0)
            self.assertEqual(count_clients(network), 1)
            flood()
            second, later = self.join(network, self.ticket(network, client_id="board"))
            network.kill("n1")
            world.start("n1")
            for _ in range(20):
                flood()
                world.run(0.25)
            network.publish(10)
            world.run(2.0)
            self.assertEqual([len(owner.events), len(later.events)], [10, 10])
            self.assertEqual(count_clients(network), 2)
            self.assertEqual(len(network.state_of("n1")["parents"]), 1)
            first.leave()
            second.leave()

    def test_a_client_joins_a_mesh_whose_key_it_does_not_know(self) -> None:
        with self.keyed_mesh() as network:
            reader = network.subscribe("all", "n1", mesh_parents=1)
            network.world.run_until(lambda: is_held(reader))
            network.publish(10)
            network.settle()
            self.assertEqual(network.state_of("n0")["refusals"], {})

    def find_refusals(self, network: TransportNetwork, ticket: bytes) -> set[str]:
        """Return why the root has refused clients, after one has shown a ticket."""
        leaf, owner = self.join(network, ticket)
        network.world.run_until(lambda: bool(owner.joins or network.state_of("n0")["refusals"]))
        refusals = set(network.state_of("n0")["refusals"])
        self.assertEqual(owner.joins, 0 if refusals else 1)
        leaf.leave()
        return refusals

    def test_tickets_of_earlier_versions_count_until_signatures_are_required(self) -> None:
        for is_required in (False, True):
            with self.keyed_mesh(require_signatures=is_required) as network:
                refused = self.find_refusals(network, self.ticket(network, issuer=""))
                self.assertEqual(refused, {"ticket not signed"} if is_required else set())
                self.wait_until_held(network)

    def wait_until_held(self, network: TransportNetwork) -> None:
        """Let a client join with a ticket of its session."""
        reader = network.subscribe("all", "n1", mesh_parents=1)
        network.world.run_until(lambda: is_held(reader))

    def test_tickets_of_a_revoked_log_are_refused_and_those_of_the_new_key_count(self) -> None:
        with self.keyed_mesh() as network:
            world = network.world
            stolen = self.ticket(network, expires=world.wall_clock() + 300_000)
            earlier = world["n1"].event_log.origin
            for name in ("n0", "n1"):
                network.kill(name)
            world.change_settings("n0", revoked_logs=(Place(earlier, 1, 0),))
            (world._folder / "n1" / FILE_NAME).unlink()
            for name in ("n0", "n1"):
                world.start(name)
            world.run_until(lambda: len(network.state_of("n1")["parents"]) == 1)
            origin = world["n1"].event_log.origin
            self.assertTrue(origin_has_key(origin, own_key(network, "n1").public.raw))
            self.assertNotEqual(origin, earlier)
            refused = self.find_refusals(network, stolen)
            self.assertEqual(refused, {"ticket of a revoked log"})
            refusals = network.state_of("n0")["refusals"]
            self.wait_until_held(network)
            self.assertEqual(network.state_of("n0")["refusals"], refusals)
