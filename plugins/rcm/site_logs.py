"""Proofs by which the sites of a group show that a log is theirs.

A run states that its site's log has no other events of the flow in its range. So a site that names
the log of another node could let others pass over that node's events. The name of a log belongs to
the key of its node (`broker.event.origin`), which signs the group, its site and the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec

from broker.errors import BadSignature, BrokerError
from broker.event.origin import is_signed_origin, origin_has_key
from broker.signatures.statement import SITE_DOMAIN, check_statement, sign_statement
from broker.streams.contract import ITransportContext
from plugins.rcm.effects import EndLink, GroupEffect, SendPacket
from plugins.rcm.marked_codec import MarkedCodec
from plugins.rcm.observer import GroupObserver

MARK: Final = b"l"
_LONGEST: Final = 1024


class LogProof(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    key: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    signature: Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]


_codec: MarkedCodec[LogProof] = MarkedCodec(MARK, LogProof, "with the proof of a log", _LONGEST)


class SiteLogs(GroupObserver):
    """Sends the own proof to each site that is connected, and checks those of others.

    Sites of earlier versions drop and send none.
    """

    mark = MARK

    def __init__(self, context: ITransportContext, origins: Mapping[str, str]) -> None:
        """`origins` are the logs that the sites name."""
        self._context = context
        self._origins = origins
        self._proven: dict[str, str] = {}
        self._own: bytes | None = None
        self.unproven = 0
        """Ranges that were not taken, since their site may not have the log."""

    def may_state(self, site: str) -> bool:
        """Return whether the ranges of a site count: the log that it names may be its own."""
        origin = self._origins.get(site, "")
        if not is_signed_origin(origin) or self._proven.get(site) == origin:
            return True
        others = [each for each, named in self._origins.items() if named == origin]
        if len(others) == 1 and not self._context.must_prove_log(site, origin):
            return True
        self.unproven += 1
        return False

    def connect(self, site: str, now: float) -> list[GroupEffect]:
        context = self._context
        if self._own is None and is_signed_origin(context.origin):
            key = context.signing_key
            signature = sign_statement(key, SITE_DOMAIN, *self._parts(context.node, context.origin))
            self._own = _codec.encode(LogProof(key.public.raw, signature))
        return [] if self._own is None else [SendPacket(self._own, [site])]

    def receive(self, site: str, packets: Sequence[bytes], now: float) -> list[GroupEffect]:
        origin = self._origins.get(site, "")
        if self._proven.get(site) == origin:
            return []
        try:
            self._check(site, origin, _codec.decode(packets[-1]))
        except BrokerError as error:
            return [EndLink(site, error)]
        self._proven[site] = origin
        return []

    def _check(self, site: str, origin: str, proof: LogProof) -> None:
        """Raises `BadSignature`."""
        parts = self._parts(site, origin)
        check_statement(proof.key, proof.signature, SITE_DOMAIN, *parts)
        if not origin_has_key(origin, proof.key):
            raise BadSignature(f"{site} has another key than that of the log {origin}")

    def _parts(self, site: str, origin: str) -> tuple[bytes, bytes, bytes]:
        return self._context.instance.encode(), site.encode(), origin.encode()

    def snapshot(self) -> Mapping[str, object]:
        return {"unproven_ranges": self.unproven}
