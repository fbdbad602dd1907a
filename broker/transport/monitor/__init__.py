"""Connection monitor."""

from broker.transport.monitor.owner import ILinkOwner, ILinkOwners

__all__ = ["ILinkOwner", "ILinkOwners"]
