"""Services of a node for a transport that clients join."""

from __future__ import annotations

from broker.streams.contract import ILinkReceiver, ILinks
from broker.streams.guarded_receiver import guard_receiver
from broker.streams.instance import TransportInstance
from broker.streams.node_services import NodeServices


class LeafServices:
    """Implements `broker.streams.leaf_contract.ILeafServices`."""

    def __init__(self, services: NodeServices, instance: TransportInstance) -> None:
        self.ticket_key, self.ticket_policy = services.ticket_key, services.ticket_policy
        self._services = services
        self._instance = instance

    def open_links(self, listen: str, receiver: ILinkReceiver) -> ILinks:
        guarded = guard_receiver(self._instance, receiver)
        return self._services.open_client_links(self._instance.stack, listen, guarded)
