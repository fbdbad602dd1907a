"""Detection of two processes that run on copies of one log.

A node that learns of the later process ends its link to the earlier one, and refuses it while the
later one is alive. Where no node has met both, the earlier process learns of the later one from
tables under its own name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import attrs

from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.map.entries import NODE, PROCESS, PROOF, SELF
from broker.cluster.map.name_bindings import SignedDescriptor
from broker.cluster.messages import TableChange
from broker.cluster.neighbours import Neighbour
from broker.errors import Cloned, ProtocolError
from broker.event.origin import is_signed_origin

#: Seconds between two signs: links to dead processes end in this time.
CONFIRMATION_TIME = 10.0


def is_later_clone(later: NodeDescriptor, node: NodeDescriptor) -> bool:
    return later.origin == node.origin and node.incarnation < later.incarnation


def clone_error(name: str, host: str, later_at: str) -> Cloned:
    return Cloned(
        f"{name} at {host[:80]} and at {later_at[:80]} run on copies of one log: the one that "
        "was started later continues"
    )


def endpoint_text(node: NodeDescriptor) -> str:
    endpoint = node.tcp or node.udp
    return "an unknown place" if endpoint is None else f"{endpoint.host}:{endpoint.port}"


def find_earlier_clones(
    neighbours: Iterable[Neighbour], members: Mapping[str, NodeDescriptor]
) -> Iterator[tuple[str, Cloned]]:
    for neighbour in list(neighbours):
        later = members.get(neighbour.name)
        if later is not None and is_later_clone(later, neighbour.node):
            yield neighbour.name, clone_error(neighbour.name, neighbour.peer, endpoint_text(later))


def find_later_process(own: NodeDescriptor, tables: Iterable[TableChange]) -> Cloned | None:
    """Return the error for a later process that other nodes' tables describe under this name.

    It has this node's key too, if the log's name belongs to a key: others can not describe one.
    """
    for kind, _, _, entries in tables:
        described = dict(entries) if kind in (NODE, PROCESS) else {}
        if SELF not in described:
            continue
        with suppress(ProtocolError):
            later = NodeDescriptor.from_plain(described[SELF])
            if is_later_clone(later, own) and _is_of_log(later, described.get(PROOF)):
                return clone_error(own.name, endpoint_text(own), endpoint_text(later))
    return None


def _is_of_log(node: NodeDescriptor, proof: Any) -> bool:
    """Return whether the key of the log that a node names has signed its descriptor."""
    return (
        not is_signed_origin(node.origin)
        or SignedDescriptor.from_plain(node.to_plain(), proof).is_of_log
    )


def is_proven(own: NodeDescriptor, later: Iterable[SignedDescriptor]) -> bool:
    """Return whether a node that refuses this one as a clone has shown a later process.

    Where the log's name belongs to no key, its word counts.
    """
    return not is_signed_origin(own.origin) or any(
        is_later_clone(each.node, own) and each.is_of_log for each in later
    )


@attrs.define
class CloneConfirmation:
    """Signs that this process is the earlier of two; the other may have just ended."""

    _first_sign_at: float | None = None

    def record_sign(self, now: float) -> bool:
        if self._first_sign_at is None or now - self._first_sign_at > 6 * CONFIRMATION_TIME:
            self._first_sign_at = now
            return False
        return now - self._first_sign_at >= CONFIRMATION_TIME
