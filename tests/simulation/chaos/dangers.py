"""What may happen to a network in a run of chaos, and what its nodes have against it."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from broker.config import Settings, StreamSettings
from broker.event.place import Place
from broker.event.stream import StreamPattern
from broker.testing.guarantees import Allowances

#: What a log keeps where it keeps little: some dozens of the events of `chaos`.
_SHORT: int = 4 << 20


@attrs.frozen
class Dangers:
    """Links are cut and slow, nodes are killed and started again, in every run."""

    archived: bool = False
    """What nodes log is archived within seconds."""
    guarded: bool = False
    """A neighbour has a copy of what is acknowledged."""
    disks: bool = False
    """Once, a node that is killed loses its disk."""
    moving: bool = False
    """Clients of durable subscriptions end, and come back at any node, without memory."""
    short: bool = False
    """Logs keep little, and events are large."""
    clocks: bool = False
    """Clocks of nodes step by hours."""
    busy: bool = False
    """Matching takes longer now and then."""

    wandering: bool = False
    """Publishers go to other nodes while theirs is away, and repeat what was not acknowledged."""
    joining: bool = False
    """Once, a node joins that was not there before."""

    @property
    def settings(self) -> Settings:
        """Of each node."""
        settings = Settings()
        if self.guarded:
            everything = StreamSettings(StreamPattern.parse(">"), acknowledge="neighbour")
            settings = attrs.evolve(settings, streams=(everything,))
        if self.short:
            settings = attrs.evolve(settings, log=attrs.evolve(settings.log, max_bytes=_SHORT))
        return settings

    @property
    def may_lose(self) -> bool:
        """Whether what is told as gone may be missing, unless the archive has it: what retention
        took, maybe before it was archived; and without an archive what lies at a node that can not
        be asked while a client goes on at another."""
        return self.short or not self.archived

    def allowances(self, archived: Callable[[Place], bool]) -> Allowances:
        """Exceptions from the guarantees that these dangers justify."""
        return Allowances(
            may_be_gone=lambda key, place, gap: self.may_lose and not archived(place),
            unknown_origins=self.clocks,
            fifo_across_origins=not self.wandering,
        )

    @property
    def size(self) -> int:
        """Characters that the largest events have more than they need."""
        return 50_000 if self.short else 0
