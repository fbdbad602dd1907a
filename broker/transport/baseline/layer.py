"""Description of the baselines as layers of a link."""

from __future__ import annotations

from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.transport.baseline.core import PlainCore
from broker.transport.layer import ILinkLayer, Property


@implementer(ILinkLayer)
@attrs.frozen(kw_only=True)
class PlainLayer:
    """Messages as the connection carries them (RCM R41)."""

    buffer_bytes: int
    """Bound of the messages that wait while the peer is suspected; 0: none wait."""

    name: ClassVar[str] = "plain"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset(
        {Property.FRAMED, Property.FIFO, Property.OUTAGE_NOTICE}
    )
    provides: ClassVar[frozenset[Property]] = frozenset()
    breaks: ClassVar[frozenset[Property]] = frozenset()

    def create_core(self) -> PlainCore:
        return PlainCore(self.buffer_bytes)
