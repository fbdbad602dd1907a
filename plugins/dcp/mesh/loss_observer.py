"""Counts which parents have lost an event, some seconds after its first copy (DCP D99)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from plugins.dcp.mesh.joint_loss import JointLoss
from plugins.dcp.receiver import SequenceReceiver
from plugins.dcp.recent_events import FirstCopy, RecentEvents

#: Seconds. By then a keep-alive of each parent has shown how far it has sent.
SETTLED_AFTER: Final = 6.0


class LossObserver:
    """Passes the events of all sequences on to `JointLoss`, once their copies have come.

    A parent has lost an event if it has sent later ones without it, or with it only when asked. A
    parent that knew this node's place skips events: then nothing is known of it.
    """

    def __init__(self, recent: RecentEvents, losses: JointLoss) -> None:
        self._recent = recent
        self._losses = losses

    def observe(self, parents: Iterable[Hashable], now: float) -> None:
        """Count the events whose first copies came long enough ago, at these parents."""
        parents = list(parents)
        for sequence, an, copy in self._recent.take_settled(now - SETTLED_AFTER):
            assert isinstance(sequence, SequenceReceiver)
            required = sequence.required
            chains = ((each, sequence.find_chain(each)) for each in parents)
            observed = [
                parent for parent, chain in chains if chain and chain.observes(an, required)
            ]
            if observed:
                brought = _find_bringers(copy)
                self._losses.add(observed, [each for each in observed if each not in brought])


def _find_bringers(copy: FirstCopy) -> set[Hashable]:
    """Return the parents that brought an event without a request."""
    copies = ((copy.parent, copy.received_at, copy.is_repeated), *(copy.later or ()))
    return {parent for parent, _, is_repeated in copies if not is_repeated}
