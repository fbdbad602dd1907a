"""The paths of one event through a mesh, for `explain --mesh` (N7).

The question has two parts. The first has the EventId: nodes with the event in their log return its
place. The second has the place: each node returns its part of the paths, also one that forwarded
the event and did not log it.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, TypedDict

import msgspec
from twisted.internet.defer import DeferredLock

from broker.errors import BadName, ProtocolError
from broker.event.event_id import EventId, parse_event_id
from broker.event.flow import pattern_of
from broker.event.place import Mark
from broker.identity import Identity
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent
from broker.streams.tracing_transport import NodePart
from broker.tracing.event_fate import OtherNodes
from broker.tracing.log_search import event_id_of, search_log
from broker.tracing.node_trace import EventPlace
from broker.wire.codec import Count, Schema, pack

PATHS_QUESTION: Final = "event-paths"
#: A further question is not answered.
MAX_WAITING: Final = 16


class _Answer(TypedDict, total=False):
    place: EventPlace | None
    partly: bool
    part: NodePart | None


_ANSWER: Final = Schema[_Answer](_Answer, "answer about the paths of an event")


class PathsQuestion(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    client_id: str
    timestamp: Count
    number: Count
    incarnation: Count
    place: EventPlace | None = None
    """Set in the second part."""

    def is_about(self, event: LoggedEvent) -> bool:
        asked = EventId(self.client_id, self.timestamp, self.number, self.incarnation)
        return event_id_of(event) == asked


_QUESTION: Final = Schema[PathsQuestion](PathsQuestion, "question about the paths of an event")


class TracingStacks(Protocol):
    """`broker.streams.transports.StreamTransports`."""

    def trace(self, flow: str, mark: Mark) -> NodePart | None: ...
    def describe_stack(self, pattern: str) -> dict[str, str]: ...


class EventPaths:
    """Answers for this node, one at a time, and gathers those of all nodes."""

    def __init__(
        self, log: EventLog, stacks: TracingStacks | None, others: OtherNodes, name: str
    ) -> None:
        """`name` is this node's name without a cluster. Without a network there are no `stacks`."""
        self._log = log
        self._stacks = stacks
        self._others = others
        self._name = name
        self._lock = DeferredLock()

    async def answer_question(self, content: bytes) -> tuple[bytes, int] | None:
        """Return the answer with the rank that links need for it; None for a malformed question,
        and if too many wait."""
        try:
            question = _QUESTION.decode(content)
        except ProtocolError:
            return None
        if len(self._lock.waiting) >= MAX_WAITING:
            return None
        return pack(await self._answer(question)), 0

    async def _answer(self, question: PathsQuestion) -> _Answer:
        if question.place is not None:
            flow, epoch, offset = question.place
            part = None if self._stacks is None else self._stacks.trace(flow, (epoch, offset))
            return {"part": part}
        await self._lock.acquire()
        try:
            event, partly = await search_log(self._log, question.timestamp, question.is_about)
        finally:
            self._lock.release()
        place = None if event is None else (event.origin, *event.mark)
        return {"place": place, "partly": partly}

    async def find_paths(self, identity: Identity, text: str) -> dict[str, Any]:
        """Return `place`, `stack`, and the `nodes` of the event's mesh; `silent` nodes, and nodes
        that searched their log `partly`. Without a place the event is unknown.

        `text` is the EventId. Raises `NotAllowed` without the right to administer the node, and
        `BadName` for a text that is none.
        """
        identity.check_administer()
        try:
            event_id = parse_event_id(text)
        except ValueError:
            raise BadName(f"{text[:200]!r} is no EventId: client/incarnation/number@time") from None
        client_id, timestamp, number, incarnation = event_id
        first = PathsQuestion(client_id, timestamp, number, incarnation)
        answers, silent = await self._ask(first)
        place = next((each["place"] for each in answers.values() if each.get("place")), None)
        partly = sorted(node for node, each in answers.items() if each.get("partly"))
        found: dict[str, Any] = {"event": str(event_id), "place": None, "nodes": []}
        if place is None:
            return found | {"stack": None, "silent": silent, "partly": partly}
        flow, epoch, offset = place
        second = msgspec.structs.replace(first, place=place)
        answers, silent = await self._ask(second)
        parts = [
            {**each["part"], "node": node} for node, each in answers.items() if each.get("part")
        ]
        return found | {
            "place": f"{flow}:{epoch}:{offset}",
            "stack": self._describe_stack(flow),
            "nodes": sorted(parts, key=lambda part: (part["level"], part["name"])),
            "silent": silent,
            "partly": [],
        }

    def _describe_stack(self, flow: str) -> dict[str, str] | None:
        return None if self._stacks is None else self._stacks.describe_stack(pattern_of(flow))

    async def _ask(self, question: PathsQuestion) -> tuple[dict[str, Any], list[str]]:
        """Return the answers of all nodes by address, and the silent nodes."""
        found: dict[str, Any] = {
            self._others.own_address or self._name: await self._answer(question)
        }
        gathered = await self._others.ask_all_nodes(PATHS_QUESTION, pack(question))
        silent = list(gathered.silent)
        for node, data in gathered.answers.items():
            try:
                found[node] = _ANSWER.decode(data)
            except ProtocolError:
                silent.append(node)
        return found, sorted(silent)
