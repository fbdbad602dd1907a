"""Flows: the events of one origin under one carrying pattern, each with its own marks.

The events of an origin that the default transport carries are its default flow, whose key is the
name of the origin. The key of another flow is `ORIGIN/PATTERN`, where PATTERN is the stream pattern
that the origin node's configuration gives to another stack. Transports overtake each other, so
positions hold a mark for each flow. Offsets are those of the origin's one log: a range (after,
upto] of a flow has all its events in that range of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

import attrs

from broker.errors import BadName
from broker.event.place import Mark
from broker.event.stream import StreamPattern

#: Bytes of a key: a chunk of the log has one byte for the length of its name.
MAX_FLOW_BYTES = 255
MAX_ORIGIN_BYTES = 64
#: Patterns with another stack in one node's configuration.
MAX_PATTERNS = 64
#: Intervals of one flow; the oldest are dropped, and their events count as default flow.
MAX_INTERVALS = 64
_SEPARATOR = "/"
_LITERAL, _ANY_TOKEN, _REST = 2, 1, 0
_KINDS = {"*": _ANY_TOKEN, ">": _REST}

#: Events behind the first mark and up to the second belong to a flow; None: to all later ones.
FlowInterval: TypeAlias = tuple[Mark, Mark | None]


def origin_of(flow: str) -> str:
    return flow.partition(_SEPARATOR)[0]


def is_default_flow(flow: str) -> bool:
    return _SEPARATOR not in flow


def pattern_of(flow: str) -> str:
    """Return an empty text for a default flow."""
    return flow.partition(_SEPARATOR)[2]


@lru_cache(maxsize=4096)
def check_flow(flow: str) -> str:
    """Return a valid key. Raises `BadName`."""
    origin, separator, pattern = flow.partition(_SEPARATOR)
    if not origin or len(origin.encode()) > MAX_ORIGIN_BYTES or "\0" in origin:
        raise BadName(f"the origin {origin[:80]!r} is not 1 to {MAX_ORIGIN_BYTES} bytes")
    if not separator:
        return flow
    StreamPattern.parse(pattern)
    if len(flow.encode()) > MAX_FLOW_BYTES:
        raise BadName(f"the flow {flow[:80]!r} has over {MAX_FLOW_BYTES} bytes")
    return flow


def is_flow(flow: str) -> bool:
    try:
        check_flow(flow)
    except BadName:
        return False
    return True


def may_carry(flow: str, pattern: StreamPattern) -> bool:
    """Return whether a flow may have events of streams that match a pattern."""
    carrying = pattern_of(flow)
    return not carrying or StreamPattern.parse(carrying).overlaps(pattern)


def make_flow(origin: str, pattern: str) -> str:
    """Raises `BadName`."""
    return check_flow(f"{origin}{_SEPARATOR}{pattern}")


def precedence(pattern: StreamPattern) -> tuple[int, tuple[int, ...]]:
    """Return the rank among the patterns that match one stream: the greatest carries it.

    More literal tokens win. Among equals the first different token decides: a literal before `*`,
    and `*` before `>`. Two different patterns that match one stream never have equal ranks.
    """
    kinds = tuple([_KINDS.get(token, _LITERAL) for token in pattern.tokens])
    return kinds.count(_LITERAL), kinds


@attrs.frozen
class CarryingPatterns:
    """The patterns that a node's configuration gives to other stacks than the default one."""

    patterns: tuple[StreamPattern, ...] = ()
    """The greatest rank first."""

    @classmethod
    def parse(cls, texts: Iterable[str]) -> CarryingPatterns:
        """Raises `BadName`."""
        patterns = {StreamPattern.parse(text) for text in texts}
        if len(patterns) > MAX_PATTERNS:
            raise BadName(f"{len(patterns)} patterns have a stack; at most {MAX_PATTERNS} may")
        longest = MAX_FLOW_BYTES - MAX_ORIGIN_BYTES - len(_SEPARATOR)
        for each in patterns:
            if len(each.text) > longest:
                raise BadName(f"the pattern {each.text[:80]!r} with a stack is over {longest} long")
        return cls(tuple(sorted(patterns, key=precedence, reverse=True)))

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def find_pattern(self, stream: str) -> StreamPattern | None:
        """Return the pattern that carries a stream; None: the default transport does."""
        return next((each for each in self.patterns if each.matches(stream)), None)

    def flow_of(self, origin: str, stream: str) -> str:
        found = self.find_pattern(stream)
        return origin if found is None else f"{origin}{_SEPARATOR}{found.text}"


#: All streams are carried by the default transport.
DEFAULT_ONLY: Final = CarryingPatterns()


NO_FLOWS: Final[Mapping[str, Sequence[FlowInterval]]] = {}


def is_within_intervals(intervals: Sequence[FlowInterval], mark: Mark) -> bool:
    return any(since < mark and (until is None or mark <= until) for since, until in intervals)


def update_intervals(
    origin: str,
    known: Mapping[str, tuple[FlowInterval, ...]],
    carrying: CarryingPatterns,
    start: Mark,
) -> dict[str, tuple[FlowInterval, ...]]:
    """Return the changed intervals of an origin's flows at a start of its node.

    A new pattern opens an interval at `start`, the beginning of the start's epoch. An open one
    whose pattern is gone ends there.
    """
    changed: dict[str, tuple[FlowInterval, ...]] = {}
    flows = {make_flow(origin, each.text) for each in carrying.patterns}
    for flow in flows:
        intervals = known.get(flow, ())
        if not intervals or intervals[-1][1] is not None:
            changed[flow] = (*intervals, (start, None))[-MAX_INTERVALS:]
    for flow, intervals in known.items():
        if origin_of(flow) == origin and flow not in flows and intervals[-1][1] is None:
            changed[flow] = (*intervals[:-1], (intervals[-1][0], start))
    return changed
