"""Counts which parents have lost an event, some seconds after its first copy, and which have saved
it (DCP D99; N15)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from plugins.dcp.mesh.joint_loss import JointLoss
from plugins.dcp.parent_chain import ParentChain
from plugins.dcp.parent_path import ParentPath
from plugins.dcp.receiver import SequenceReceiver
from plugins.dcp.recent_events import FirstCopy, RecentEvents

_Chains: TypeAlias = list[tuple[Hashable, ParentChain]]
_Outcome: TypeAlias = tuple[tuple[Hashable, ...], frozenset[Hashable]]
"""Parents that are known to have sent an event, or to have lost it, and those that brought it."""
#: Seconds. By then a keep-alive of each parent has shown how far it has sent.
SETTLED_AFTER: Final = 6.0


class LossObserver:
    """Passes the events of all sequences on to `JointLoss`, once their copies have come.

    A parent has lost an event if it has sent later ones without it, or with it only when asked. A
    parent that knew this node's place skips events: then nothing is known of it.

    A parent has saved an event whose first copy came from it unasked: a loss, if all other parents
    have lost the event; else the time until another one brought it unasked.
    """

    def __init__(
        self,
        recent: RecentEvents,
        losses: JointLoss,
        paths: Mapping[Hashable, ParentPath] | None = None,
    ) -> None:
        """`paths` has those of the parents, in which savings are counted."""
        self._recent = recent
        self._losses = losses
        self._paths = {} if paths is None else paths

    def observe(self, parents: Iterable[Hashable], now: float) -> None:
        """Count the events whose first copies came long enough ago, at these parents."""
        parents = list(parents)
        chains: dict[object, _Chains] = {}
        # Most events have the same outcome.
        outcomes = Counter[_Outcome]()
        for sequence, an, copy in self._recent.take_settled(now - SETTLED_AFTER):
            assert isinstance(sequence, SequenceReceiver)
            found = chains.get(sequence)
            if found is None:
                found = chains[sequence] = _find_chains(sequence, parents)
            required = sequence.required
            observed = tuple([each for each, chain in found if chain.observes(an, required)])
            outcomes[observed, _find_bringers(copy)] += 1
            self._count_saving(copy, observed)
        for (observed, brought), events in outcomes.items():
            if observed:
                lost = [each for each in observed if each not in brought]
                self._losses.add(observed, lost, events)

    def _count_saving(self, copy: FirstCopy, observed: Collection[Hashable]) -> None:
        path = self._paths.get(copy.parent)
        if path is None or copy.is_repeated:
            return
        for later in copy.later or ():
            if not later.is_repeated and later.parent != copy.parent:
                path.saved_seconds += later.received_at - copy.received_at
                return
        others = [each for each in self._paths if each != copy.parent]
        path.saved_losses += bool(others) and all(each in observed for each in others)


def _find_chains(sequence: SequenceReceiver[Any], parents: list[Hashable]) -> _Chains:
    chains = ((each, sequence.find_chain(each)) for each in parents)
    return [(parent, chain) for parent, chain in chains if chain is not None]


def _find_bringers(copy: FirstCopy) -> frozenset[Hashable]:
    """Return the parents that brought an event without a request."""
    later = copy.later or ()
    found = [each.parent for each in later if not each.is_repeated]
    return frozenset(found if copy.is_repeated else [copy.parent, *found])
