"""Order certificates of whole nodes, for each variant of the order."""

from __future__ import annotations

import unittest
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest

from broker.errors import ConfigurationError, ProtocolError, UnknownStack
from broker.order_certificates.proof import Outcome, read_event_proof, verify_event
from broker.order_certificates.signing_key import SigningKey
from broker.testing.simulated_reader import read_logs
from broker.testing.transport_case import TransportCase
from broker.testing.transport_network import CARRIED, INSTANCE, TransportNetwork
from plugins.rcm.certificates.configuration import create_certificates
from plugins.rcm.options import RcmOptions
from plugins.rcm.plugin import rcm_transport
from plugins.rcm.stack import rcm_links

KEYS = {f"n{number}": SigningKey.generate() for number in range(3)}
SITES = {f"n{each}": f"tcp:host=127.0.0.1:port={9000 + each}" for each in range(3)}
PINNED = {site: key.public for site, key in KEYS.items()}


class CertificateCase(TransportCase):
    plugin = rcm_transport
    links = rcm_links
    order: ClassVar[str]
    seeds: ClassVar[Sequence[int]] = (0,)

    def setUp(self) -> None:
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for site, key in KEYS.items():
            key.store(self.folder / site)

    def node_options(self, number: int) -> RcmOptions:
        return RcmOptions(
            sites=SITES,
            order=self.order,
            signing_key=self.folder / f"n{number}",
            site_keys={site: str(key) for site, key in PINNED.items()},
        )

    @contextmanager
    def publishing(self, seed: int) -> Iterator[TransportNetwork]:
        with self.network(seed, 3) as network:
            for name in network.world.names:
                network.subscribe(f"all-{name}", name, waits=False)
            for name in network.world.names:
                network.add_publisher(name)
            network.publish()
            yield network

    def rows(self, network: TransportNetwork) -> list[dict[str, Any]]:
        return [row for name in network.world.names for row in network.state_of(name)["peers"]]

    def check_equal(self, network: TransportNetwork, *, with_missing: bool = False) -> None:
        for row in self.rows(network):
            self.assertGreater(row["equal"], 0, row)
            self.assertEqual(row["different"], 0, row)
            self.assertEqual(row["certificate_error"], "", row)
            if not with_missing:
                self.assertEqual(row["missing"], 0, row)
                self.assertEqual(row["equal"], row["certificates"], row)

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
                self.check_equal(network)
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
                self.check_equal(network)

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
                self.check_equal(network, with_missing=True)


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


class TestWithoutKey(TransportCase, unittest.TestCase):
    """Sites without keys, and one with a key."""

    plugin = rcm_transport
    links = rcm_links

    def test_certificates_are_neither_signed_nor_required(self) -> None:
        with TemporaryDirectory() as folder:
            key = Path(folder) / "key"
            KEYS["n0"].store(key)
            self.node_options = lambda number: RcmOptions(  # type: ignore[method-assign]
                sites=SITES, signing_key=None if number else key
            )
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
                with self.assertRaisesRegex(ConfigurationError, "signing_key is not set"):
                    network.world.wait(client.ask("order-proof", event="c/1/1"))


class TestConfiguration(unittest.TestCase):
    def create(self, **options: Any) -> object:
        return create_certificates(
            *(RcmOptions(sites=SITES, **options), "g", "n0", 1), has_times=True
        )

    def test_no_key_means_no_certificates(self) -> None:
        self.assertIsNone(self.create())

    def test_a_key_that_others_would_reject_is_a_wrong_configuration(self) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "key"
            with self.assertRaisesRegex(ConfigurationError, "can not be read"):
                self.create(signing_key=path)
            KEYS["n0"].store(path)
            other = {"n0": str(PINNED["n1"])}
            with self.assertRaisesRegex(ConfigurationError, "is not the key of n0"):
                self.create(signing_key=path, site_keys=other)
            self.assertIsNotNone(self.create(signing_key=path))
