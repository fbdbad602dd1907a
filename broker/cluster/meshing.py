"""Which links a node makes itself: to the members it has none to, and to configured gateways.

Every member dials, so a cluster is meshed as far as the connection set-up vectors go (M4). Both
ends may dial at once; then `keeps_connection` says, alike at both, which connection stays (T13). After a
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
SHORTEST_BACKOFF = 0.5
LONGEST_BACKOFF = 30.0
#: Dialled at once; a whole cluster that comes back does not dial everybody in one moment.
MOST_DIALS = 4
#: The same for a machine that is slow (M7).
MOST_DIALS_IF_SLOW = 1


def keeps_connection(own: str, peer: str, initiated_by_us: bool) -> bool:
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
class _TargetState:
    """How it stands with one target."""

    is_linked: bool = False
    linked_at: float = 0.0
    """When the link came up, if there is one."""
    is_dialling: bool = False
    failures: int = 0
    retry_at: float = 0.0


class Meshing:
    """What is dialled when. Targets have keys of the caller's: a member's name, for example."""

    def __init__(self, most_links: int, rng: random.Random) -> None:
        self._most_links = most_links
        self._rng = rng
        self._targets: Mapping[str, Target] = {}
        self._states: dict[str, _TargetState] = {}
        self.is_slow = False
        """Whether the machine is behind with what it has to do."""

    def set_targets(
        self, targets: Mapping[str, Target], now: float, linked: Collection[str] = ()
    ) -> list[Dial]:
        """From now on these are to be linked, the first ones first; others are left alone.

        To those that are `linked` there is a link, whoever made it before they were targets.
        """
        self._targets = dict(targets)
        self._states = {key: self._states.get(key, _TargetState()) for key in self._targets}
        for key in self._states.keys() & set(linked):
            self._set_linked(key, now)
        return self.handle_timeout(now)

    def link_up(self, key: str, now: float) -> list[Dial]:
        """There is a link to this target, whoever made it."""
        if key in self._states:
            self._set_linked(key, now)
        return self.handle_timeout(now)

    def link_down(self, key: str, now: float) -> list[Dial]:
        """The link is down. A moment's rest keeps those who lost the same node from rushing.

        One that did not last counts as a failure: a peer that ends each link soon is left alone.
        """
        found = self._states.get(key)
        if found and found.is_linked and found.linked_at + LASTED <= now:
            self._states[key] = _TargetState(retry_at=now + self._backoff(0))
        elif found and (found.is_linked or found.is_dialling):
            self._states[key] = self._after_failure(found, now)
        return self.handle_timeout(now)

    def dial_failed(self, key: str, now: float) -> list[Dial]:
        """What `Dial` asked for has come to nothing."""
        found = self._states.get(key)
        if found and not found.is_linked:
            self._states[key] = self._after_failure(found, now)
        return self.handle_timeout(now)

    def handle_timeout(self, now: float) -> list[Dial]:
        """What is to be dialled now."""
        dials = []
        for key in self._idle_keys():
            if not self._has_room():
                break
            found = self._states[key]
            if found.retry_at <= now:
                found.is_dialling = True
                dials.append(Dial(key, self._targets[key]))
        return dials

    def next_timeout(self) -> float | None:
        """When `handle_timeout` is due, in monotonic seconds; None: never."""
        if not self._has_room():
            return None
        return min((self._states[key].retry_at for key in self._idle_keys()), default=None)

    def _set_linked(self, key: str, now: float) -> None:
        found = self._states[key]
        if not found.is_linked:
            self._states[key] = _TargetState(is_linked=True, linked_at=now, failures=found.failures)

    def _after_failure(self, found: _TargetState, now: float) -> _TargetState:
        return _TargetState(
            failures=found.failures + 1, retry_at=now + self._backoff(found.failures)
        )

    def _idle_keys(self) -> list[str]:
        return [
            key for key, each in self._states.items() if not (each.is_linked or each.is_dialling)
        ]

    def _has_room(self) -> bool:
        under_way = sum(each.is_dialling for each in self._states.values())
        links = sum(each.is_linked for each in self._states.values())
        most = MOST_DIALS_IF_SLOW if self.is_slow else MOST_DIALS
        return under_way < most and links + under_way < self._most_links

    def _backoff(self, failures: int) -> float:
        return backoff_wait(failures, SHORTEST_BACKOFF, LONGEST_BACKOFF, self._rng)
