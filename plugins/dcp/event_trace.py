"""This node's part of the paths of an event, for `xmlbroker explain --mesh`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.event.place import Mark
from broker.streams.tracing_transport import NodePart, TracedChild, TracedCopy, TracedParent
from plugins.dcp.children import Child
from plugins.dcp.event_range import SequenceKey
from plugins.dcp.recent_ranges import Forwarded
from plugins.dcp.router import Router
from plugins.dcp.sequences import SequenceState

#: Queries of a child that an answer has.
_MOST_QUERIES: Final = 3


def trace_event(router: Router, name: str, flow: str, mark: Mark) -> NodePart | None:
    """Return how the event at a place came to a node, and went on; None for an unknown flow.

    `name` is that of the node.
    """
    key, an = SequenceKey(flow, mark[0]), mark[1]
    state = router.sequences.get(key)
    if state is None:
        return None
    copies = list(_copies(state, an))
    forwarded = router.recent_ranges.find(key, an)
    return {
        "name": name,
        "is_root": router.is_root,
        "level": router.membership.level,
        "has_passed": (state.end or 0) >= an,
        "copies": copies,
        "parents": list(_other_parents(router, state, an, {each["parent"] for each in copies})),
        "children": [_trace_child(each, forwarded) for each in router.children],
    }


def _copies(state: SequenceState, an: int) -> Iterator[TracedCopy]:
    copy = None if state.receiver is None else state.receiver.find_copy(an)
    if copy is None:
        return
    begin = copy.received_at
    for parent, received_at, is_repeated in (
        (copy.parent, begin, copy.is_repeated),
        *(copy.later or ()),
    ):
        late = round((received_at - begin) * 1e3, 3)
        yield {"parent": parent.path.name, "late_ms": late, "is_repeated": is_repeated}


def _other_parents(
    router: Router, state: SequenceState, an: int, known: set[str]
) -> Iterator[TracedParent]:
    receiver = state.receiver
    for parent in router.parents if receiver is not None else ():
        name = parent.candidate.name
        if receiver is not None and name not in known:
            chain = receiver.find_chain(parent.connection)
            yield {"name": name, "has_passed": chain is not None and chain.end >= an}


def _trace_child(child: Child, forwarded: Forwarded | None) -> TracedChild:
    queries: list[str] = []
    if not child.is_fed:
        outcome = "waiting"
    elif forwarded is None:
        outcome = "unknown"
    elif child.link in forwarded.links:
        outcome = "forwarded"
    else:
        outcome = "filtered"
        wanted = sorted(child.wanted)
        queries = [f"{pattern} {query}" for pattern, query, _ in wanted[:_MOST_QUERIES]]
        if len(wanted) > _MOST_QUERIES:
            queries.append(f"and {len(wanted) - _MOST_QUERIES} more")
    return {"name": child.name, "outcome": outcome, "queries": queries}
