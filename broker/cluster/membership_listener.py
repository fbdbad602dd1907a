"""Interface from membership to the node's network."""

from __future__ import annotations

from typing import Protocol

from broker.cluster.address import UnitPath
from broker.cluster.admission import AdmissionContext
from broker.cluster.handshake_core import Accepted
from broker.errors import Cloned
from broker.transport.socket import ISocketChannel


class MembershipListener(Protocol):
    """Receives the events of membership, and supplies the admission context."""

    def cluster_joined(self, cluster: UnitPath, admitted: int) -> None: ...

    def connection_accepted(
        self, accepted: Accepted, channel: ISocketChannel, transport: str, initiated: bool
    ) -> None: ...

    def clone_detected(self, error: Cloned) -> None:
        """A node has a link to another process on a copy of this node's log."""

    def admission_context(self) -> AdmissionContext | None:
        """None while the node is in no cluster."""
