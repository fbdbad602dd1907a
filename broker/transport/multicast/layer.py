"""Description of the multicast layer."""

from __future__ import annotations

from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.transport.layer import ILayer, Property
from broker.transport.multicast.core import MulticastCore


@implementer(ILayer)
@attrs.frozen
class MulticastLayer:
    """A copy of each message for each destination (RCM R11, R33). It adds no bytes."""

    name: ClassVar[str] = "multicast"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset(
        {Property.FRAMED, Property.FIFO, Property.OUTAGE_NOTICE}
    )
    provides: ClassVar[frozenset[Property]] = frozenset(
        {Property.ONE_TO_MANY, Property.SENDER_ORDER}
    )
    breaks: ClassVar[frozenset[Property]] = frozenset()

    def create_core(self) -> MulticastCore:
        return MulticastCore()
