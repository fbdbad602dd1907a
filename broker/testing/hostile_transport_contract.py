"""Contract tests for stream transports: foreign input, and errors of the transport itself."""

from __future__ import annotations

from functools import partial
from random import Random

from broker.config.stacks import DEFAULT_STACK, Plugins
from broker.testing.datagram_network import Address
from broker.testing.link_stranger import make_hello, open_stranger, send_garbage
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transport_case import TransportCase
from broker.testing.wrapped_transport import InjectedError, failing, recorded


class HostileTransportContract(TransportCase):
    """A part of `TransportContract`."""

    def test_foreign_datagrams_change_nothing(self) -> None:
        for seed in self.seeds:
            with self.network(seed) as network:
                world, random = network.world, Random(seed)
                ports = [port for name in world.names for port in world.datagram_addresses(name)]
                if not ports:
                    return
                genuine: list[tuple[bytes, Address]] = []
                world.datagrams.filter = partial(_record, genuine)
                self.subscribe_and_publish(network)
                world.datagrams.filter = lambda *_: True
                for number in range(300):
                    datagram, source = random.choice(genuine)
                    forged = _forged(datagram, random)
                    stranger = f"10.0.0.{number % 20}", 1
                    world.datagrams.send_datagram(
                        # A whole one, repeated, may come from its sender.
                        *(forged, source if forged == datagram else stranger, random.choice(ports))
                    )
                    if number % 20 == 0:
                        network.publish(1)
                network.settle()
                network.check_states()

    def test_foreign_connections_change_nothing(self) -> None:
        for seed in self.seeds:
            with self.network(seed) as network:
                world, random = network.world, Random(seed)
                ports = [port for name in world.names for port in world.connection_addresses(name)]
                if not ports:
                    return
                hello = make_hello(network.make_stack(0), network.plugins)
                self.subscribe_and_publish(network)
                for number in range(100):
                    packets = [_forged(hello, random) for _ in range(3)]
                    send_garbage(world, random.choice(ports), packets)
                    if number % 10 == 0:
                        network.publish(1)
                network.settle()
                network.check_states()

    def test_messages_of_strangers_change_nothing(self) -> None:
        for seed in self.seeds:
            random, genuine = Random(seed), list[bytes]()
            with self.network(seed, wrap=partial(_recorded, genuine)) as network:
                world = network.world
                ports = [
                    port
                    for name in world.names
                    for addresses in (world.datagram_addresses, world.connection_addresses)
                    for port in addresses(name)
                ]
                if network.plugins[1] is None or not ports:
                    return
                self.subscribe_and_publish(network)
                network.settle()
                stranger = open_stranger(world, network.make_stack(0), network.plugins)
                peers = [stranger.add_peer(port) for port in ports]
                world.run(1.0)
                for number in range(100):
                    stranger.send([_forged(random.choice(genuine), random)], peers)
                    if number % 10 == 0:
                        network.publish(1)
                stranger.close()
                network.settle()
                network.check_states()

    def test_a_transport_that_raises_stops_alone_and_its_events_arrive(self) -> None:
        if self.is_default:
            return
        for seed in self.seeds:
            for node, method in (("n0", "publish"), ("n1", "announce"), ("n2", "withdraw")):
                self._check_failure(seed, node, method)

    def test_a_transport_that_raises_for_a_received_message_stops_alone(self) -> None:
        for seed in self.seeds:
            with NetworkWorld(seed) as world:
                plugin, links = self.create_plugins(world)
            # The network of clusters itself makes the links of the default transport.
            if links is not None and plugin.name != DEFAULT_STACK:
                self._check_failure(seed, "n1", "messages_received")

    def _check_failure(self, seed: int, node: str, method: str) -> None:
        successes = {"messages_received": 10, "publish": 3}.get(method, 0)

        def wrap(plugins: Plugins) -> Plugins:
            return failing(plugins, node, method, successes)

        with self.network(seed, wrap=wrap) as network:
            brief = network.subscribe("brief", "n2").subscription
            self.subscribe_and_publish(network)
            assert brief is not None
            del network.readers["brief"]
            brief.unsubscribe()
            network.publish()
            network.settle()
            names = network.world.names
            error = network.state_of(node)["error"]
            self.assertEqual(error, f"{InjectedError.__name__}: {method}", method)
            network.check_states([name for name in names if name != node])


def _record(
    genuine: list[tuple[bytes, Address]], datagram: bytes, source: Address, target: Address
) -> bool:
    genuine.append((datagram, source))
    return True


def _recorded(messages: list[bytes], plugins: Plugins) -> Plugins:
    return plugins if plugins[1] is None else recorded(plugins, messages)


def _forged(datagram: bytes, random: Random) -> bytes:
    """Return random bytes, random ones behind a genuine begin, a part of a datagram, or all."""
    return random.choice(
        (
            random.randbytes(random.randrange(1, 200)),
            datagram[:4] + random.randbytes(random.randrange(100)),
            datagram[: random.randrange(1, len(datagram) + 1)],
            datagram,
        )
    )
