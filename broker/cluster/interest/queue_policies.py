"""Queue policies of announced interest, in tables that earlier versions ignore.

An entry has the id of an interest. Interest without an entry has the policy `block`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from broker.cluster.interest.entries import interest_id
from broker.cluster.messages import Value
from broker.errors import BadQueuePolicy, ProtocolError
from broker.matching.covering.interest_union import InterestUnion
from broker.streams.queue_policy import BLOCK, IQueuePolicy, merge_policies, parse_queue_policy
from broker.wire.codec import Schema, pack

#: By the kind of the table with the interest.
QUEUE_KINDS: Final = {"profile": "profile-queue", "summary": "summary-queue"}
INTEREST_KINDS: Final = {queue: kind for kind, queue in QUEUE_KINDS.items()}
#: Bytes of a policy; a longer one is left out. 1000 entries fit into a table beside the interest.
_MAX_BYTES = 200
_CACHE_SIZE = 8192
#: Text of the policy, prefixes of its key.
_Policy: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
_POLICY: Final = Schema[_Policy](_Policy, "queue policy")


def encode_policy(policy: IQueuePolicy) -> Value | None:
    """Return None for `block`, or for a long policy."""
    value = (policy.text, policy.namespaces)
    return None if policy == BLOCK or len(pack(value)) > _MAX_BYTES else value


@lru_cache(maxsize=_CACHE_SIZE)
def decode_policy(value: Value) -> IQueuePolicy:
    """Return `block` for a malformed or unknown policy: it loses nothing."""
    try:
        text, namespaces = _POLICY.convert(value)
        return parse_queue_policy(text, dict(namespaces))
    except (ProtocolError, BadQueuePolicy):
        return BLOCK


class PublishedPolicies:
    """Policies of a union's interest: of each announced query, merged over those that it covers."""

    def __init__(self) -> None:
        self._published: dict[str, Value] = {}
        self.is_outdated = False

    def update(
        self, union: InterestUnion, policy_of: Callable[[Hashable], IQueuePolicy]
    ) -> dict[str, Value | None]:
        """Return the changes of the table since the last call."""
        self.is_outdated = False
        policies: dict[str, Value] = {}
        for interest, keys in union.keys_by_announced():
            merged = policy_of(keys[0])
            for key in keys[1:]:
                merged = merge_policies(merged, policy_of(key))
            value = encode_policy(merged)
            if value is not None:
                policies[interest_id(interest)] = value
        before, self._published = self._published, policies
        changed = {id: value for id, value in policies.items() if before.get(id) != value}
        return {**changed, **dict.fromkeys(before.keys() - policies.keys())}


def apply_policies(policies: dict[str, IQueuePolicy], changes: Mapping[str, Value | None]) -> None:
    """Change the policies of another node's table, by the id of the interest."""
    for id, value in changes.items():
        policy = BLOCK if value is None else decode_policy(value)
        if policy == BLOCK:
            policies.pop(id, None)
        else:
            policies[id] = policy
