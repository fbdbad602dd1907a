"""Connection monitor: heartbeats, silence, suspicion and quality of a link (RCM R19-R26)."""

from broker.transport.monitor.layer import MonitorLayer
from broker.transport.monitor.owner import ILinkOwner, ILinkOwners
from broker.transport.monitor.settings import MonitorSettings

__all__ = ["ILinkOwner", "ILinkOwners", "MonitorLayer", "MonitorSettings"]
