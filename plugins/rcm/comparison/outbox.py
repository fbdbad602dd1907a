"""Packets of one call of the comparison: those of all variants for the same sites are one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from plugins.rcm.comparison.packet import Batch, Packet, encode_packet
from plugins.rcm.comparison.peer import Peer
from plugins.rcm.effects import SendPacket

Part: TypeAlias = tuple[str, bytes]


class Outbox:
    def __init__(self, incarnation: int, peers: Mapping[str, Peer]) -> None:
        self._incarnation = incarnation
        self._peers = peers
        self._parts: dict[str, list[Part]] = {}
        self._effects: list[SendPacket] = []

    def add_part(self, variant: str, data: bytes, sites: Iterable[str]) -> None:
        for site in sites:
            self._parts.setdefault(site, []).append((variant, data))

    def add_release(self, release: int, first: int, count: int, clock: int) -> None:
        """Send own messages, with the parts since the last packet, to all sites that take part."""
        for peer in self._peers.values():
            if peer.takes_part:
                self._parts.setdefault(peer.site, [])
        self._send_parts(release, first, count, clock)

    def add(self, packet: Packet, sites: Iterable[str]) -> None:
        """Send a packet behind all earlier ones."""
        self._send_parts()
        self._send(packet, sites)

    def take(self) -> list[SendPacket]:
        """Return the effects since the last call."""
        self._send_parts()
        effects, self._effects = self._effects, []
        return effects

    def _send_parts(self, release: int = 0, first: int = 0, count: int = 0, clock: int = 0) -> None:
        if not self._parts:
            return
        groups: dict[tuple[Part, ...], list[str]] = {}
        for site, parts in self._parts.items():
            groups.setdefault(tuple(parts), []).append(site)
        self._parts = {}
        for alike, sites in groups.items():
            batch = Batch(self._incarnation, release, first, count, clock, alike)
            self._send(batch, sites)

    def _send(self, packet: Packet, sites: Iterable[str]) -> None:
        data = encode_packet(packet)
        open_to = [each for each in sites if self._peers[each].has_room(len(data))]
        if open_to:
            self._effects.append(SendPacket(data, open_to))
