"""Authentication of packets by a shared secret."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.transport.arq.mac import Mac, derive_layer_key
from broker.transport.effects import Consumed, DeliverUp, Effect, SendDown
from broker.transport.layer import ILinkLayer, LinkPassThrough, Property


@implementer(ILinkLayer)
@attrs.frozen(kw_only=True)
class MacLayer:
    """A tag of 8 bytes at the end of each packet. Packets with a wrong tag are counted and dropped.

    All ends share `secret`. Without it the tag detects damage only. Recorded packets can be
    repeated, also to their sender: a layer above must ignore old packets.
    """

    secret: bytes = attrs.field(default=b"", repr=False)

    name: ClassVar[str] = "mac"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset({Property.FRAMED})
    breaks: ClassVar[frozenset[Property]] = frozenset()

    @property
    def provides(self) -> frozenset[Property]:
        return frozenset({Property.AUTHENTICATED} if self.secret else ())

    def create_core(self) -> MacCore:
        return MacCore(Mac(derive_layer_key(self.secret)))


class MacCore(LinkPassThrough):
    def __init__(self, mac: Mac) -> None:
        #: Damaged, or of a host without the secret.
        self.forged = 0
        self._mac = mac

    def submit(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        return [SendDown([self._mac.add_tag(each) for each in packets])]

    def receive(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        opened = map(self._mac.remove_tag, packets)
        genuine = [each for each in opened if each is not None]
        forged = len(packets) - len(genuine)
        self.forged += forged
        effects: list[Effect] = [Consumed(forged)] if forged else []
        if genuine or not packets:
            effects.append(DeliverUp(genuine))
        return effects
