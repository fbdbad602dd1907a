"""Messages between a node and its archiver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from broker.recovery.archive_access import ArchivedDurable, Coverage
from broker.wire import codec
from broker.wire.codec import Codec, Count, WireMark

#: Type, version and variant of a DTD.
WireDtd: TypeAlias = tuple[str, str, str]


class Message(codec.Message, frozen=True):
    """Base of the messages."""


CODEC: Final = Codec[Message]()


# ----------------------------------------------------------------------------- from the node


@CODEC.register
class Flush(Message, frozen=True):
    """Archive new events now."""

    kind = 0x01


@CODEC.register
class AskCoverage(Message, frozen=True):
    """Ask for the coverage of all origins."""

    kind = 0x02


@CODEC.register
class AskDurable(Message, frozen=True):
    kind = 0x03
    number: Count
    client_id: str
    name: str


@CODEC.register
class AskDtd(Message, frozen=True):
    """Ask for a DTD in the archive."""

    kind = 0x04
    number: Count
    dtd: WireDtd


@CODEC.register
class End(Message, frozen=True):
    """Archive new events once more, and end."""

    kind = 0x05


@CODEC.register
class DeadOrigins(Message, frozen=True):
    """Archive the replicas of these origins."""

    kind = 0x06
    origins: tuple[str, ...]


@CODEC.register
class DtdAnswer(Message, frozen=True):
    """Answer to `AskDtds`; the text is None if the node has none."""

    kind = 0x07
    dtd: WireDtd
    text: bytes | None
    origin: str
    """Origin of the validated events."""


# ----------------------------------------------------------------------------- to the node


@CODEC.register
class Report(Message, frozen=True):
    kind = 0x41
    reached: Mapping[str, WireMark] = {}
    """End of the archived events, by origin."""
    problem: str = ""
    """Reason why nothing can be archived now."""
    figures: Mapping[str, Count] = {}
    """Counters of `ArchiverCounters` and `MaintenanceProcess`."""


@CODEC.register
class AskDtds(Message, frozen=True):
    """Ask for DTDs of an origin's events."""

    kind = 0x42
    dtds: tuple[WireDtd, ...]
    origin: str


@CODEC.register
class FoundCoverage(Message, frozen=True):
    """Answer to `AskCoverage`."""

    kind = 0x43
    coverage: Coverage


@CODEC.register
class FoundDurable(Message, frozen=True):
    """Answer to `AskDurable`; None if there is none, or the archive is not readable."""

    kind = 0x44
    number: Count
    durable: ArchivedDurable | None


@CODEC.register
class FoundDtd(Message, frozen=True):
    """Answer to `AskDtd`; None if there is none, or the archive is not readable."""

    kind = 0x45
    number: Count
    text: bytes | None
