"""Links of one instance of the default transport, beside the links of the network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, TypeAlias

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.handshake_core import Accepted, Refused
from broker.cluster.link_log import LinkLog
from broker.cluster.link_stacks import LinkStacks, max_frame
from broker.cluster.meshing import Dial, Meshing, Target
from broker.cluster.neighbours import Neighbour, Neighbours
from broker.cluster.traffic import frame as frames
from broker.config import Settings
from broker.config.stacks import StackInstance
from broker.errors import (
    AuthenticationFailed,
    BrokerError,
    Closed,
    NotConnected,
    ProtocolError,
    StackMismatch,
)
from broker.queue_memory import QueueMemory
from broker.transport.clock import IClock
from broker.transport.core_runner import CoreRunner
from broker.transport.socket import ISocketChannel
from broker.transport.stacks import IProtocolStack, Transport

_FRAME = bytes([frames.KIND])

#: Connects to a neighbour of the network again, for a purpose. Calls the first function after the
#: handshake, or the second one with a refusal or an error.
DialNeighbour: TypeAlias = Callable[
    [
        Neighbour,
        str,
        Callable[[Accepted, ISocketChannel], None],
        Callable[[Refused | BrokerError], None],
    ],
    None,
]


class InstanceLinks:
    """Links of one instance of the default transport, at most one to each neighbour.

    Such a link is a second connection to a node with a link of the network, and ends with that. The
    end that made the connection of the network makes it, to the same address. It carries the frames
    of the instance while it is connected; else they use the link of the network.
    """

    log = Logger()

    def __init__(
        self,
        stack: StackInstance,
        plugin: IProtocolStack,
        purpose: str,
        settings: Settings,
        network_links: Neighbours,
        receive_frames: Callable[[Neighbour, Sequence[bytes]], None],
        dial_neighbour: DialNeighbour,
        clock: IClock,
        random: Random,
        link_log: LinkLog,
        memory: QueueMemory,
    ) -> None:
        """`plugin` is the link stack, `purpose` that of the handshake.

        `receive_frames` raises `ProtocolError` for an invalid one.
        """
        self.instance = stack.name
        self._purpose = purpose
        self._clearance = stack.clearance.rank
        self._network_links = network_links
        self._receive_frames = receive_frames
        self._dial_neighbour = dial_neighbour
        self._link_log = link_log
        self._dropped = 0
        self._failures: Counter[str] = Counter()
        """Of dialled connections, by error code."""
        self._refusing: set[str] = set()
        """Nodes without this instance. They can have it only after a restart."""
        self._connected: set[str] = set()
        stacks = LinkStacks(settings, stack, plugin, clock.seconds(), memory)
        self._links = Neighbours(
            settings.node.name,
            clock,
            self,
            stacks.build(Transport.TCP.value),
            stacks.create,
            max_frame=max_frame(settings),
        )
        # The links of the network have a bound.
        most = settings.network.max_tcp_links + settings.network.max_udp_links
        self._meshing = Meshing(most, random)
        self._runner: CoreRunner[Dial] = CoreRunner(clock, self._dial, self._meshing)

    # ------------------------------------------------------------------ for the network

    def can_carry(self, name: str, rank: int) -> bool:
        """Return whether a link is connected, and cleared for events of a rank."""
        return rank <= self._clearance and name in self._connected

    def send_droppable(self, message: bytes, names: Iterable[str]) -> bool:
        """Send a message that full links drop. Return True if all have taken it."""
        is_taken = self._links.send_droppable(message, names)
        self._dropped += not is_taken
        return is_taken

    def network_link_up(self) -> None:
        """Also called after a reconnection: the other end may have made it."""
        self._set_targets()

    def network_link_down(self, name: str) -> None:
        self._refusing.discard(name)
        self._links.close_link(name, Closed("the link of the network is over"))
        self._set_targets()

    def stop(self) -> None:
        """Dial no more."""
        self._runner.stop()

    def flush_all(self) -> Deferred[None]:
        """Close all links. Fires when all data has left or is lost."""
        return self._links.flush_all()

    def find_error(self, node: NodeDescriptor) -> BrokerError | None:
        """Return a reason to refuse a link to a node."""
        known = self._network_links.get(node.name)
        if known is None or not known.is_same_process(node):
            return NotConnected(f"the network has no link to this process of {node.name} yet")
        return None

    def attach_connection(
        self, accepted: Accepted, channel: ISocketChannel, transport: str, *, is_dialled: bool
    ) -> None:
        name = accepted.peer.name
        neighbour = Neighbour.from_handshake(accepted, channel, transport, is_dialled)
        error = self.find_error(accepted.peer) or self._find_clearance_error(neighbour)
        if error is not None:
            channel.abort(error)
            self._runner.call(self._meshing.dial_failed, name)
            return
        self._links.attach_connection(neighbour, channel)
        known = self._links.get(name)
        if known is None:
            self.link_failed(neighbour)
        elif known.up:
            # Also for a second connection, or a replacement.
            self._runner.call(self._meshing.link_up, name)

    def _find_clearance_error(self, neighbour: Neighbour) -> BrokerError | None:
        """Return an error for a link whose clearance may not be that of the network's link."""
        known = self._network_links.get(neighbour.name)
        assert known is not None
        if neighbour.protection != known.protection:
            return AuthenticationFailed("the link of the network is proven or encrypted otherwise")
        return None

    def snapshot(self) -> Mapping[str, Any]:
        return {
            "dropped": self._dropped,
            "refused": dict(self._failures),
            "peers": [
                {
                    "address": each.peer,
                    "node": each.name,
                    "linked": each.name in self._connected,
                    "sent": each.sent,
                    "received": each.received,
                    "full": each.full,
                }
                for each in self._links
            ],
        }

    # ------------------------------------------------------------------ dialling

    def _set_targets(self) -> None:
        targets = {
            each.name: Target(Endpoint(each.name, 0), self._purpose, (), each.name)
            for each in self._network_links
            if each.up and each.initiated and each.name not in self._refusing
        }
        linked = {each.name for each in self._links if each.up}
        self._runner.call(lambda now: self._meshing.set_targets(targets, now, linked))

    def _dial(self, dial: Dial) -> None:
        name = dial.key
        network_link = self._network_links.get(name)
        if network_link is None:
            self._runner.call(self._meshing.dial_failed, name)
            return
        transport = network_link.transport

        def accepted(result: Accepted, channel: ISocketChannel) -> None:
            self.attach_connection(result, channel, transport, is_dialled=True)

        def failed(result: Refused | BrokerError) -> None:
            error = result.error if isinstance(result, Refused) else result
            self._failures[error.code] += 1
            is_refused = isinstance(result, Refused) and result.by_peer
            if is_refused and isinstance(error, StackMismatch | ProtocolError):
                self._refusing.add(name)
                self.log.warn(
                    "{node} has no links of {stack}, which uses those of the network: {error}",
                    node=name,
                    stack=self.instance,
                    error=error,
                )
                self._set_targets()
            elif not self._runner.is_stopped:
                target = f"{name} for the stack {self.instance}"
                self._link_log.log_failed_link(f"{self._purpose} {name}", target, error)
            self._runner.call(self._meshing.dial_failed, name)

        self._dial_neighbour(network_link, self._purpose, accepted, failed)

    # ------------------------------------------------------------------ links

    def link_up(self, neighbour: Neighbour) -> None:
        self._connected.add(neighbour.name)
        self.log.info(
            "linked to {name} for the stack {stack}", name=neighbour.name, stack=self.instance
        )
        self._link_log.reset_link(f"{self._purpose} {neighbour.name}")
        self._runner.call(self._meshing.link_up, neighbour.name)

    def link_resumed(self, neighbour: Neighbour) -> None:
        self._connected.add(neighbour.name)

    def link_broken(self, neighbour: Neighbour) -> None:
        self._connected.discard(neighbour.name)
        self._runner.call(self._meshing.link_down, neighbour.name)

    def link_down(self, neighbour: Neighbour, error: BrokerError | None) -> None:
        self.log.info(
            "the link to {name} for the stack {stack} is down: {error}",
            name=neighbour.name,
            stack=self.instance,
            error=error or "closed",
        )
        self.link_broken(neighbour)

    def link_failed(self, neighbour: Neighbour) -> None:
        self.link_broken(neighbour)

    def messages_received(self, neighbour: Neighbour, batch: Sequence[bytes]) -> None:
        """Raises `ProtocolError` for anything but frames."""
        if not all(each[:1] == _FRAME for each in batch):
            raise ProtocolError("the link of a stack carries frames only")
        self._receive_frames(neighbour, batch)
