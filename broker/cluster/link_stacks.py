"""Stacks of the links of one node, with the faults of its configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from broker.config import Settings
from broker.config.stacks import StackInstance
from broker.queue_memory import HeldBytes, QueueMemory
from broker.transport.faults import create_layers
from broker.transport.layer import ILayer
from broker.transport.monitor import ILinkOwner
from broker.transport.stack import Stack
from broker.transport.stacks import (
    GroupAddress,
    IFanOutStack,
    IProtocolStack,
    IReconnectingStack,
    ReconnectionPolicy,
    StackSettings,
    Transport,
    build_stack,
)


class LinkStacks:
    """Stacks over connections, for one instance and its link stack."""

    def __init__(
        self,
        settings: Settings,
        instance: StackInstance,
        plugin: IProtocolStack,
        start: float,
        memory: QueueMemory,
    ) -> None:
        """Faults count their time from `start`; send buffers count in `memory`."""
        self._settings = settings
        self._instance = instance
        self._plugin = plugin
        self._start = start
        self._memory = memory
        self._created: Counter[str] = Counter()

    @property
    def policy(self) -> ReconnectionPolicy | None:
        """None: links are dialled with backoff, and end with a disconnection."""
        if not IReconnectingStack.providedBy(self._plugin):
            return None
        policy: ReconnectionPolicy = self._plugin.reconnection_policy(self._instance.link_options)
        return policy

    @property
    def group(self) -> GroupAddress | None:
        """The IP multicast group beside the connections."""
        if not IFanOutStack.providedBy(self._plugin):
            return None
        group: GroupAddress | None = self._plugin.group_of(self._instance.link_options)
        return group

    def build(
        self,
        transport: str,
        incarnation: int = 1,
        faults: Sequence[ILayer] = (),
        owner: ILinkOwner | None = None,
    ) -> Stack:
        """Return a stack over a kind of `Transport`."""
        settings = StackSettings(
            node=self._settings.node.name,
            incarnation=incarnation,
            transport=Transport(transport),
            suspect=self._settings.network.suspect,
            options=self._instance.link_options,
            owner=owner,
            held=HeldBytes(self._memory),
        )
        return build_stack(self._plugin, settings, faults=faults)

    def create(
        self, name: str, transport: str, incarnation: int, owner: ILinkOwner | None = None
    ) -> Stack:
        """Return the stack of a new link to the node with a name."""
        earlier = self._created[name]
        faults = create_layers(self._settings.faults, name, self._start, earlier)
        if faults:
            self._created[name] += 1
        return self.build(transport, incarnation, faults, owner)


def max_frame(settings: Settings) -> int:
    """Return the largest packet of a connection between nodes, in bytes."""
    # Events of several commits, and some dozens of header bytes per destination.
    return 4 * max(settings.limits.max_frame_bytes, settings.limits.max_event_bytes)
