"""Which links a node makes itself: to the members it has none to, and to configured gateways.

Every member dials, so a cluster is meshed as far as the connection set-up vectors go (M4). Both
ends may dial at once; then `keeps` says, alike at both, which connection stays (T13). After a
failure a target rests, longer each time and never as long as others' (T44).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping

import attrs

from broker.cluster.address import UnitPath
from broker.cluster.descriptor import Endpoint
from broker.transport.backoff import LASTED, backoff_wait

#: Seconds before a target is tried again: doubled up to the longest, of that half to all by chance.
SHORTEST_REST = 0.5
LONGEST_REST = 30.0
#: Dialled at once; a whole cluster that comes back does not dial everybody in one moment.
MOST_UNDER_WAY = 4
#: The same for a machine that is slow (M7).
MOST_UNDER_WAY_IF_SLOW = 1


def keeps(own: str, peer: str, initiated_by_us: bool) -> bool:
    """Whether this of two connections to `peer` stays: the one that the smaller name made."""
    return initiated_by_us == (own < peer)


@attrs.frozen
class Target:
    """Somebody to have a link to."""

    endpoint: Endpoint
    purpose: str
    cluster: UnitPath
    name: str = ""
    """The node that must answer; empty: whoever does."""


@attrs.frozen
class Dial:
    """Make a connection to this target, greet, and tell `linked` or `failed`."""

    key: str
    target: Target


@attrs.define
class _Try:
    """How it stands with one target."""

    linked: bool = False
    since: float = 0.0
    """When the link came up, if there is one."""
    under_way: bool = False
    failures: int = 0
    not_before: float = 0.0


class Meshing:
    """What is dialled when. Targets have keys of the caller's: a member's name, for example."""

    def __init__(self, most_links: int, rng: random.Random) -> None:
        self._most_links = most_links
        self._rng = rng
        self._targets: Mapping[str, Target] = {}
        self._tries: dict[str, _Try] = {}
        self.is_slow = False
        """Whether the machine is behind with what it has to do."""

    def aim(
        self, targets: Mapping[str, Target], now: float, linked: Collection[str] = ()
    ) -> list[Dial]:
        """From now on these are to be linked, the first ones first; others are left alone.

        To those that are `linked` there is a link, whoever made it before they were targets.
        """
        self._targets = dict(targets)
        self._tries = {key: self._tries.get(key, _Try()) for key in self._targets}
        for key in self._tries.keys() & set(linked):
            self._up(key, now)
        return self.handle_timeout(now)

    def linked(self, key: str, now: float) -> list[Dial]:
        """There is a link to this target, whoever made it."""
        if key in self._tries:
            self._up(key, now)
        return self.handle_timeout(now)

    def lost(self, key: str, now: float) -> list[Dial]:
        """The link is down. A moment's rest keeps those who lost the same node from rushing.

        One that did not last counts as a failure: a peer that ends each link soon is left alone.
        """
        found = self._tries.get(key)
        if found and found.linked and found.since + LASTED <= now:
            self._tries[key] = _Try(not_before=now + self._rest(0))
        elif found and (found.linked or found.under_way):
            self._tries[key] = self._after_failure(found, now)
        return self.handle_timeout(now)

    def failed(self, key: str, now: float) -> list[Dial]:
        """What `Dial` asked for has come to nothing."""
        found = self._tries.get(key)
        if found and not found.linked:
            self._tries[key] = self._after_failure(found, now)
        return self.handle_timeout(now)

    def handle_timeout(self, now: float) -> list[Dial]:
        """What is to be dialled now."""
        dials = []
        for key in self._idle():
            if not self._has_room():
                break
            found = self._tries[key]
            if found.not_before <= now:
                found.under_way = True
                dials.append(Dial(key, self._targets[key]))
        return dials

    def next_timeout(self) -> float | None:
        """When `handle_timeout` is due, in monotonic seconds; None: never."""
        if not self._has_room():
            return None
        return min((self._tries[key].not_before for key in self._idle()), default=None)

    def _up(self, key: str, now: float) -> None:
        found = self._tries[key]
        if not found.linked:
            self._tries[key] = _Try(linked=True, since=now, failures=found.failures)

    def _after_failure(self, found: _Try, now: float) -> _Try:
        return _Try(failures=found.failures + 1, not_before=now + self._rest(found.failures))

    def _idle(self) -> list[str]:
        return [key for key, each in self._tries.items() if not (each.linked or each.under_way)]

    def _has_room(self) -> bool:
        under_way = sum(each.under_way for each in self._tries.values())
        links = sum(each.linked for each in self._tries.values())
        most = MOST_UNDER_WAY_IF_SLOW if self.is_slow else MOST_UNDER_WAY
        return under_way < most and links + under_way < self._most_links

    def _rest(self, failures: int) -> float:
        return backoff_wait(failures, SHORTEST_REST, LONGEST_REST, self._rng)
