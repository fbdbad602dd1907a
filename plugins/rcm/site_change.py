"""Bytes of a message that admits or removes a site."""

from __future__ import annotations

import msgspec

from broker.errors import BadName, ConfigurationError, ProtocolError
from broker.transport.order import MessageId, Stamp
from plugins.rcm.certificates.token_bucket import TokenBucket
from plugins.rcm.site_list import Change, SiteRecord

#: Tokens of a change, which is written to the disk: 64 at once, and 32 a second.
COST = 16.0

_decoder = msgspec.msgpack.Decoder(SiteRecord)
_encode = msgspec.msgpack.Encoder().encode


class ChangeReader:
    """Checks changes of the sites as they arrive, before they have their place."""

    def __init__(self) -> None:
        self._buckets: dict[str, TokenBucket] = {}

    def check(self, site: str, id: MessageId, data: bytes, now: float) -> None:
        """Raises `ProtocolError` also for a flood."""
        if not self._buckets.setdefault(site, TokenBucket()).take(COST, now):
            raise ProtocolError(f"a flood of changes of the sites from {site}")
        decode_change(data, Change.of(id, Stamp(0, site)))


def encode_change(record: SiteRecord) -> bytes:
    """Encode a record without its change, which the order gives, but with its version."""
    return _encode(record)


def decode_change(data: bytes, change: Change) -> SiteRecord:
    """Return the record. Raises `ProtocolError`."""
    try:
        record = _decoder.decode(data)
        if record.change is not None:
            raise ProtocolError("a change of the sites has a place of its own")
        record = msgspec.structs.replace(record, change=change)
        record.check()
    except (msgspec.MsgspecError, ValueError) as error:
        raise ProtocolError(f"malformed change of the sites: {error}") from None
    except (BadName, ConfigurationError) as wrong:
        raise ProtocolError(f"a change of the sites: {wrong.text}") from None
    return record
