"""Dialling policy for links to members and configured gateways.

Every member dials, so the cluster is meshed up to its connection set-up vectors (M4). If both ends
dial at once, `keeps_connection` selects the same connection at both (T13). Failed targets are
retried with backoff and jitter (T44), or each period of a policy (RCM R19).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping

import attrs

from broker.cluster.address import UnitPath
from broker.cluster.descriptor import Endpoint
from broker.transport.backoff import SUCCESS_AFTER, backoff_wait
from broker.transport.stacks import ReconnectionPolicy

#: Seconds until a target is dialled again.
SHORTEST_BACKOFF = 0.5
LONGEST_BACKOFF = 30.0
#: A restarted cluster must not dial all its members at once.
MOST_DIALS = 4
#: M7.
MOST_DIALS_IF_SLOW = 1


def keeps_connection(own: str, peer: str, initiated_by_us: bool) -> bool:
    """Keep the connection that the smaller name made."""
    return initiated_by_us == (own < peer)


@attrs.frozen
class Target:
    endpoint: Endpoint
    purpose: str
    cluster: UnitPath
    name: str = ""
    """Empty: any node."""


@attrs.frozen
class Dial:
    """Connect to this target, and give up an earlier attempt. Report `link_up` or `dial_failed`."""

    key: str
    target: Target


@attrs.define
class _TargetState:
    is_linked: bool = False
    linked_at: float = 0.0
    is_dialling: bool = False
    failures: int = 0
    retry_at: float = 0.0
    """Of an attempt under way: the time at which it is given up."""


class Meshing:
    """Decides when to dial targets. The caller chooses their keys."""

    def __init__(
        self, most_links: int, rng: random.Random, policy: ReconnectionPolicy | None = None
    ) -> None:
        """Targets are dialled by `policy`; None: with backoff."""
        self._most_links = most_links
        self._rng = rng
        self._period = None if policy is None else policy.period
        self._dialled_at: dict[str, float] = {}
        self._targets: Mapping[str, Target] = {}
        self._states: dict[str, _TargetState] = {}
        self.is_slow = False

    def set_targets(
        self, targets: Mapping[str, Target], now: float, linked: Collection[str] = ()
    ) -> list[Dial]:
        """Replace the targets; earlier ones are dialled first."""
        self._targets = dict(targets)
        self._states = {key: self._states.get(key, _TargetState()) for key in self._targets}
        self._dialled_at = {
            key: time for key, time in self._dialled_at.items() if key in self._targets
        }
        for key in self._states.keys() & set(linked):
            self._set_linked(key, now)
        return self.handle_timeout(now)

    def link_up(self, key: str, now: float) -> list[Dial]:
        if key in self._states:
            self._set_linked(key, now)
        return self.handle_timeout(now)

    def link_down(self, key: str, now: float) -> list[Dial]:
        """Report a broken link; a short-lived one counts as a failure.

        Backoff keeps the peers of a dead node from dialling all at once.
        """
        found = self._states.get(key)
        if found and found.is_linked and found.linked_at + SUCCESS_AFTER <= now:
            self._states[key] = _TargetState(retry_at=self._retry_time(key, 0, now))
        elif found and (found.is_linked or found.is_dialling):
            self._states[key] = self._after_failure(key, found, now)
        return self.handle_timeout(now)

    def dial_failed(self, key: str, now: float) -> list[Dial]:
        found = self._states.get(key)
        if found and not found.is_linked:
            self._states[key] = self._after_failure(key, found, now)
        return self.handle_timeout(now)

    def handle_timeout(self, now: float) -> list[Dial]:
        dials = []
        for key in self._idle_keys():
            if not self._has_room():
                break
            found = self._states[key]
            if found.retry_at <= now:
                found.is_dialling = True
                if self._period is not None:
                    self._dialled_at[key] = now
                    found.retry_at = now + self._period
                dials.append(Dial(key, self._targets[key]))
        return dials

    def next_timeout(self) -> float | None:
        if not self._has_room():
            return None
        return min((self._states[key].retry_at for key in self._idle_keys()), default=None)

    def _set_linked(self, key: str, now: float) -> None:
        found = self._states[key]
        if not found.is_linked:
            self._states[key] = _TargetState(is_linked=True, linked_at=now, failures=found.failures)

    def _after_failure(self, key: str, found: _TargetState, now: float) -> _TargetState:
        return _TargetState(
            failures=found.failures + 1, retry_at=self._retry_time(key, found.failures, now)
        )

    def _idle_keys(self) -> list[str]:
        """Return the targets to dial at their `retry_at`."""
        gives_up = self._period is not None
        return [
            key
            for key, each in self._states.items()
            if not each.is_linked and (gives_up or not each.is_dialling)
        ]

    def _has_room(self) -> bool:
        if self._period is not None:
            # The caller bounds the targets. A silent one must not delay another.
            return True
        dialling = sum(each.is_dialling for each in self._states.values())
        links = sum(each.is_linked for each in self._states.values())
        most = MOST_DIALS_IF_SLOW if self.is_slow else MOST_DIALS
        return dialling < most and links + dialling < self._most_links

    def _retry_time(self, key: str, failures: int, now: float) -> float:
        if self._period is not None:
            return max(now, self._dialled_at.get(key, now - self._period) + self._period)
        return now + backoff_wait(failures, SHORTEST_BACKOFF, LONGEST_BACKOFF, self._rng)
