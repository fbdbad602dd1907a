"""Description of the connection monitor as a layer of a link."""

from __future__ import annotations

from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.errors import ConfigurationError
from broker.transport.layer import ILinkLayer, Property
from broker.transport.monitor.core import MonitorCore
from broker.transport.monitor.owner import ILinkOwner
from broker.transport.monitor.settings import MonitorSettings
from broker.transport.monitor.wire import VERSION


@implementer(ILinkLayer)
@attrs.frozen(kw_only=True)
class MonitorLayer:
    """Tells CONNECTED, SUSPECTED and DISCONNECTED to the layers above (RCM R24, R25).

    `incarnation` (u64, not 0) rises with each start. Raises `ConfigurationError` for another value.
    """

    incarnation: int
    settings: MonitorSettings = MonitorSettings()
    owner: ILinkOwner | None = None
    """None: a peer is connected once its HELLO has come."""

    name: ClassVar[str] = "monitor"
    version: ClassVar[int] = VERSION
    requires: ClassVar[frozenset[Property]] = frozenset({Property.FRAMED, Property.OUTAGE_NOTICE})
    provides: ClassVar[frozenset[Property]] = frozenset({Property.OUTAGE_NOTICE})
    breaks: ClassVar[frozenset[Property]] = frozenset()

    def __attrs_post_init__(self) -> None:
        if not 0 < self.incarnation < 2**64:
            raise ConfigurationError(f"incarnation: {self.incarnation} is not in 1 to 2**64-1")

    def create_core(self) -> MonitorCore:
        return MonitorCore(self.incarnation, self.settings, self.owner)
