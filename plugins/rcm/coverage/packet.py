"""The packet by which a site tells the others what it has logged and delivered."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from broker.wire.site_notice import CoveredRows
from plugins.rcm.marked_codec import MarkedCodec

MARK: Final = b"d"
_LONGEST: Final = 256 << 10


class Report(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Rows that have changed; after a connection all rows of the sender."""

    incarnation: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    """Of the sender. A later process may know less."""
    covered: CoveredRows


_codec: MarkedCodec[Report] = MarkedCodec(MARK, Report, "about delivered messages", _LONGEST)
encode_packet, decode_packet = _codec.encode, _codec.decode
