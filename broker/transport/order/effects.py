"""Effects of the cores of an order; `broker.transport.effects.Failed` is another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from broker.transport.effects import Failed
from broker.transport.order.packet import Message, MessageId, Stamp

#: A packet of a variant. `IPacketCodec` encodes it.
Packet: TypeAlias = object

#: A site whose message came late, although both ends were connected.
LATE = "late"
#: A site from which no clocks or numbers come.
OVERDUE = "overdue"


@attrs.frozen
class Send:
    """Send packets to sites, or to all other sites of the group.

    They are the messages of one release, or one other packet.
    """

    packets: Sequence[Packet]
    sites: tuple[str, ...] | None = None


@attrs.frozen
class Place:
    """Place of a late message among those delivered before it (R17, T16).

    None stands for no message, or for one that the history does not contain any more.
    """

    before: MessageId | None
    after: MessageId | None


@attrs.frozen
class Deliver:
    """Deliver a message: in time (`late` is None), or late."""

    message: Message
    stamp: Stamp
    late: Place | None = None


@attrs.frozen
class Move:
    """Give a delivered message another place, for good.

    It had another number at sites that were cut off from this one. The lowest one counts at all.
    `before` is None for a message that came without a number.
    """

    id: MessageId
    before: Stamp | None
    stamp: Stamp
    late: Place | None


@attrs.frozen
class Suspect:
    """Report the site as suspected before the next effect. The core does not wait for it any
    more."""

    site: str
    reason: str


OrderEffect: TypeAlias = Send | Deliver | Move | Suspect | Failed
