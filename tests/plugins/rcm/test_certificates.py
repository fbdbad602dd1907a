"""Order certificates of whole nodes, for each variant of the order."""

from __future__ import annotations

import unittest
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import pytest

from broker.config import load
from broker.config.stacks import Plugins
from broker.errors import ConfigurationError, ProtocolError, UnknownStack
from broker.event.origin import origin_has_key
from broker.order_certificates.proof import Outcome, read_event_proof, verify_event
from broker.order_certificates.signing_key import PinnedKey, SigningKey
from broker.signatures.node_key import FILE_NAME, load_node_key
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_reader import read_logs
from broker.testing.transport_case import TransportCase
from broker.testing.transport_network import CARRIED, INSTANCE, TransportNetwork
from plugins.rcm.options import RcmOptions
from plugins.rcm.plugin import rcm_transport
from plugins.rcm.stack import rcm_links

KEYS = {f"n{number}": SigningKey.generate() for number in range(3)}
SITES = {f"n{each}": f"tcp:host=127.0.0.1:port={9000 + each}" for each in range(3)}
PINNED = {site: [key.public] for site, key in KEYS.items()}
PINNED_TEXTS: dict[str, tuple[str, ...]] = {site: (str(key.public),) for site, key in KEYS.items()}


def store_key(world: NetworkWorld, site: str, key: SigningKey) -> None:
    """Give a node that is down another key."""
    path = world._folder / site / FILE_NAME
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    key.store(path)


def set_public_keys(world: NetworkWorld, number: int, keys: Mapping[str, tuple[str, ...]]) -> None:
    named = [(site, key) for site, found in keys.items() for key in found]
    world.change_settings(f"n{number}", public_keys=tuple(named))


def with_keys(world: NetworkWorld, plugins: Plugins) -> Plugins:
    for site, key in KEYS.items():
        store_key(world, site, key)
    return plugins


def check_equal(network: TransportNetwork, *, with_missing: bool = False) -> None:
    """Check that the sites agree on all blocks, or on those that have no missing events."""
    for row in (row for name in network.world.names for row in network.state_of(name)["peers"]):
        assert row["equal"] > 0 == row["different"], row
        assert row["certificate_error"] == "", row
        if not with_missing:
            assert row["missing"] == 0 and row["equal"] == row["certificates"], row


class CertificateCase(TransportCase):
    plugin = rcm_transport
    links = rcm_links
    order: ClassVar[str]
    seeds: ClassVar[Sequence[int]] = (0,)

    def create_plugins(self, world: NetworkWorld) -> Plugins:
        self.world = world
        return with_keys(world, super().create_plugins(world))

    def node_options(self, number: int) -> RcmOptions:
        set_public_keys(self.world, number, PINNED_TEXTS)
        return RcmOptions(sites=SITES, order=self.order, certificates=True)

    @contextmanager
    def publishing(self, seed: int) -> Iterator[TransportNetwork]:
        with self.network(seed, 3) as network:
            for name in network.world.names:
                network.subscribe(f"all-{name}", name, waits=False)
            for name in network.world.names:
                network.add_publisher(name)
            network.publish()
            yield network

    def check_proofs(self, network: TransportNetwork) -> None:
        """Check that each site proves each event that it has logged, with a place of its own."""
        world = network.world
        logs = read_logs(world)
        for name in world.names:
            client = world.client(f"asker-{name}", name)
            places = set()
            for event in (each for log in logs.values() for each in log):
                if event.header.stream != CARRIED:
                    continue
                client_id, _, number, incarnation = event.header.event_id
                identity = f"{client_id}/{incarnation}/{number}"
                answer = world.wait(client.ask("order-proof", event=identity))
                self.assertEqual(answer["stack"], INSTANCE)
                proof = read_event_proof(answer["proof"])
                leaf, outcomes = verify_event(proof, INSTANCE, PINNED)
                own = next(each for each in outcomes if each.site == name)
                self.assertIs(own.outcome, Outcome.PROVED)
                places.add(leaf.key)
            self.assertGreater(len(places), 0)
            with self.assertRaises(UnknownStack):
                world.wait(client.ask("order-proof", stack="mspaces", event="c/1/1"))
            with self.assertRaises(ProtocolError):
                world.wait(client.ask("order-proof", event=f"c/1/{2**80}"))
            self.assertIsNone(world.wait(client.ask("order-proof", event="c/1/1"))["proof"])

    def test_sites_of_a_good_network_sign_equal_blocks(self) -> None:
        for seed in self.seeds:
            with self.publishing(seed) as network:
                network.settle()
                network.world.run(10.0)
                check_equal(network)
                self.check_proofs(network)

    def test_second_roots_are_equal_after_a_partition(self) -> None:
        for seed in self.seeds:
            with self.publishing(seed) as network:
                away = f"n{seed % 3}"
                network.cut(away)
                network.publish()
                network.world.run(network.world.random.choice((1.0, 20.0)))
                network.publish()
                network.heal(away)
                network.publish()
                network.settle()
                network.world.run(60.0)
                check_equal(network)

    def test_a_restarted_site_signs_equal_blocks_again(self) -> None:
        for seed in self.seeds:
            with self.publishing(seed) as network:
                network.settle()
                name = f"n{seed % 3}"
                network.kill(name)
                network.world.run(5.0)
                network.world.start(name)
                network.world.run(10.0)
                network.publish()
                network.settle()
                network.world.run(60.0)
                check_equal(network, with_missing=True)
                for site in network.world.names:
                    self.assertEqual(
                        str(load_node_key(network.world._folder / site).public), *PINNED_TEXTS[site]
                    )


class TestHybrid(CertificateCase, unittest.TestCase):
    order = "hybrid"


@pytest.mark.soak
class TestHybridLong(TestHybrid):
    seeds = range(1, 10)


@pytest.mark.soak
class TestLogical(CertificateCase, unittest.TestCase):
    order = "logical"


@pytest.mark.soak
class TestRealTime(CertificateCase, unittest.TestCase):
    order = "real-time"


class TestSequencer(CertificateCase, unittest.TestCase):
    order = "sequencer"


class TestRotation(TransportCase, unittest.TestCase):
    """Sites whose nodes get another key."""

    plugin = rcm_transport
    links = rcm_links
    pinned = PINNED_TEXTS

    def create_plugins(self, world: NetworkWorld) -> Plugins:
        self.world = world
        return with_keys(world, super().create_plugins(world))

    def node_options(self, number: int) -> RcmOptions:
        set_public_keys(self.world, number, self.pinned)
        return RcmOptions(sites=SITES, certificates=True)

    @contextmanager
    def publishing(self) -> Iterator[TransportNetwork]:
        with self.network(0, 3) as network:
            for name in network.world.names:
                network.subscribe(f"all-{name}", name)
            for name in network.world.names:
                network.add_publisher(name)
            network.publish()
            network.settle()
            network.world.run(10.0)
            check_equal(network)
            yield network

    def restart(self, network: TransportNetwork, name: str, key: SigningKey | None = None) -> None:
        network.kill(name)
        if key is not None:
            store_key(network.world, name, key)
        network.set_carried(name, True)
        network.world.start(name)
        network.world.run(5.0)

    def test_a_site_changes_its_key_and_no_certificate_is_rejected(self) -> None:
        with self.publishing() as network:
            new = SigningKey.generate()
            self.pinned = {**PINNED_TEXTS, "n2": (*PINNED_TEXTS["n2"], str(new.public))}
            for name in ("n0", "n1"):
                self.restart(network, name)
            earlier = network.world["n2"].event_log.origin
            self.restart(network, "n2", new)
            origin = network.world["n2"].event_log.origin
            self.assertTrue(origin != earlier and origin_has_key(origin, new.public.raw))
            network.add_publisher("n0")
            network.publish()
            network.settle()
            network.world.run(10.0)
            check_equal(network, with_missing=True)
            self.check_outcomes(network, "n2", [new.public], Outcome.PROVED)

    def test_a_site_with_the_key_of_another_node_is_no_member_of_its_cluster(self) -> None:
        with self.publishing() as network:
            # n2 passes its own check, with a key that the other sites have pinned for n1.
            self.pinned = {**PINNED_TEXTS, "n2": PINNED_TEXTS["n1"]}
            self.restart(network, "n2", KEYS["n1"])
            network.world.run(20.0)
            for name in ("n0", "n1"):
                state = network.world.network_of(name).state
                assert state is not None
                self.assertNotIn("n2", state.map.members())
                self.assertIn("n2", network.world.network_of(name).signatures.rejected)

    def check_outcomes(
        self, network: TransportNetwork, site: str, pinned: list[PinnedKey], expected: Outcome
    ) -> None:
        """Check what the newest event's certificate of a site is, by its own answer."""
        logged = [each for log in read_logs(network.world).values() for each in log]
        newest = max(
            (each for each in logged if each.header.stream == CARRIED),
            key=lambda each: each.arrival,
        )
        client_id, _, number, incarnation = newest.header.event_id
        client = network.world.client("asker", site)
        asked = client.ask("order-proof", event=f"{client_id}/{incarnation}/{number}")
        proof = read_event_proof(network.world.wait(asked)["proof"])
        _, outcomes = verify_event(proof, INSTANCE, {site: pinned})
        self.assertEqual([each.outcome for each in outcomes if each.site == site], [expected])


class TestWithoutKeys(TransportCase, unittest.TestCase):
    """Sites without pinned keys, and one with them."""

    plugin = rcm_transport
    links = rcm_links

    def node_options(self, number: int) -> RcmOptions:
        return RcmOptions(sites=SITES, certificates=number == 0)

    def test_certificates_are_neither_signed_nor_required(self) -> None:
        with self.network(0, 3) as network:
            network.subscribe("all", "n1", waits=False)
            network.add_publisher("n0")
            network.publish()
            network.settle()
            network.world.run(10.0)
            self.assertGreater(network.state_of("n0")["certificate_signatures"], 0)
            self.assertNotIn("certificate_signatures", network.state_of("n1"))
            self.assertEqual(network.state_of("n1")["rejected"], 0)
            client = network.world.client("asker", "n1")
            with self.assertRaisesRegex(ConfigurationError, "certificates is off"):
                network.world.wait(client.ask("order-proof", event="c/1/1"))


class TestConfiguration(unittest.TestCase):
    def test_removed_settings_are_refused_with_the_way_out(self) -> None:
        for setting, way_out in (
            ('signing_key = "order.key"', "signing_key is removed.*node.key"),
            ("site_keys = {}", "site_keys is removed.*network.public_keys"),
        ):
            with TemporaryDirectory() as folder:
                path = Path(folder) / "node.toml"
                path.write_text(
                    '[streams."a.>"]\nstack = "g"\n[stacks.g]\nuse = "rcm"\n'
                    f'sites = {{ a = "tcp:host=127.0.0.1:port=1" }}\n{setting}\n'
                )
                with self.assertRaisesRegex(ConfigurationError, way_out):
                    load(path)
