"""The node as its membership sees it."""

from __future__ import annotations

from typing import Protocol

from broker.cluster.address import UnitPath
from broker.cluster.admission import AdmissionContext
from broker.cluster.handshake_core import Accepted
from broker.errors import Cloned
from broker.transport.socket import ISocketChannel


class MembershipListener(Protocol):
    """Who is told how membership goes, and says what is known."""

    def cluster_joined(self, cluster: UnitPath, admitted: int) -> None:
        """The node is a member of a cluster from now on."""

    def connection_accepted(
        self, accepted: Accepted, channel: ISocketChannel, transport: str, initiated: bool
    ) -> None:
        """A connection was accepted."""

    def clone_detected(self, error: Cloned) -> None:
        """A node has a link to another process that runs on a copy of this node's log."""

    def admission_context(self) -> AdmissionContext | None:
        """What is known of the cluster; None while the node is in none."""
