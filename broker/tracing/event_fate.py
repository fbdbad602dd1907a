"""The fate of one event at each node of the network, for `explain` (N7).

A client is told only of an event that it may read, and whose bytes it has shown: so an EventId
alone tells nobody whether such an event exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import attrs
import msgpack

from broker.event.envelope import SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.identity import Identity
from broker.matching.explain.explanation import EventExplanation
from broker.tracing.tracing import TRACE, NodeTrace, TraceQuestion, event_place
from broker.wire import fields

#: Verdicts of a node that has the event in its log.
HAS_IT: Final = frozenset({"origin", "logged"})
#: Verdicts of a subscription that the event is for.
_IS_FOR_IT: Final = frozenset(
    {"delivered", "unconfirmed", "catching-up", "paused", "away", "dropped", "gone"}
)
_REASONS: Final = {
    "origin": "it was published here",
    "logged": "it is in this node's log",
    "filtered": "nothing at this node asks for it",
    "denied": "no way to this node is cleared for its security level",
    "missing": "it has not come yet: what its origin published since has not been seen here either",
    "passed-over": "it is wanted here now, and did not come into this node's log when it passed: a "
    "subscription that was elsewhere then recovers it, or is told a gap",
    "unknown": "this node can not tell: it can not be shown the event, or does not know its type",
}


class Gathered(Protocol):
    """Answers of other nodes by address, and who did not answer."""

    @property
    def answers(self) -> Mapping[str, bytes]: ...
    @property
    def silent(self) -> Sequence[str]: ...


class Others(Protocol):
    """All other nodes of the network: see `broker.cluster.network_question.NetworkQuestions`."""

    @property
    def own_address(self) -> str:
        """The address of this node; empty in no cluster."""

    async def ask_all_nodes(self, what: str, content: bytes, rank: int = 0) -> Gathered:
        """Ask them all. `rank` is what links must be cleared for."""


@attrs.frozen
class _Nothing:
    answers: Mapping[str, bytes] = attrs.field(factory=dict)
    silent: Sequence[str] = ()


class Nobody:
    """The other nodes where there is no network."""

    own_address = ""

    async def ask_all_nodes(self, what: str, content: bytes, rank: int = 0) -> Gathered:
        """There is nobody."""
        return _Nothing()


class EventFate:
    """Asks all nodes, and puts together what they answer."""

    def __init__(self, trace: NodeTrace, others: Others, name: str) -> None:
        """`name` is what this node is called where it is in no cluster."""
        self._trace = trace
        self._others = others
        self._name = name

    async def of(
        self,
        identity: Identity,
        event: EventExplanation,
        document: bytes,
        client: str,
        *,
        here: bool,
    ) -> dict[str, Any] | None:
        """Plain content: `known`, `place`, and `nodes` with their verdicts; `silent` ones, and
        those that searched their log `partly`. With `here` no other node is asked.

        None where the document is no event that could have been published here.
        """
        if event.refused is not None:
            return None
        level = SecurityLevel(event.security_level)
        own = self._others.own_address or self._name
        told: dict[str, Any] = {"known": None, "place": None, "here": own, "nodes": []}
        told |= {"silent": [], "partly": []}
        if not _may_read(identity, event.stream, level):
            return told
        others: Others = Nobody() if here else self._others
        numbers = event.timestamp, event.sequence_number, event.incarnation
        first = TraceQuestion.of(EventId(event.client_id, *numbers), document, client)
        found = {own: await self._trace.look(first)}
        gathered = await others.ask_all_nodes(TRACE, first.encode())
        found |= _decoded(gathered.answers)
        place = next((each["place"] for each in found.values() if each.get("place")), None)
        told |= {"known": place is not None, "silent": sorted(gathered.silent)}
        if place is None:
            told["partly"] = sorted(node for node, each in found.items() if each.get("partly"))
            return told
        second = first.with_document(document, place)
        wants = {own: await self._trace.look(second)}
        gathered = await others.ask_all_nodes(TRACE, second.encode(), level.rank)
        wants |= _decoded(gathered.answers)
        both = {node: _both(each, wants.get(node, {})) for node, each in sorted(found.items())}
        origin, epoch, offset = place
        told["place"] = f"{origin}:{epoch}:{offset}"
        onward = _Onward.of(both)
        told["nodes"] = [
            _at_node(node, each, (epoch, offset), onward) for node, each in both.items()
        ]
        return told


def _may_read(identity: Identity, stream: str, level: SecurityLevel) -> bool:
    if identity.administer:
        return True
    return identity.rights.may_subscribe(StreamPattern.parse(stream)) and identity.is_cleared(level)


def _decoded(answers: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """What other nodes said, checked; a malformed answer counts as none."""
    found = {}
    for node, data in answers.items():
        try:
            found[node] = _checked(msgpack.unpackb(data, use_list=False, strict_map_key=True))
        except (ValueError, TypeError, LookupError, AttributeError, msgpack.UnpackException):
            continue
    return found


def _checked(content: Mapping[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {"place": None}
    if content.get("place") is not None:
        told["place"] = event_place(content["place"])
        told["is_origin"] = bool(content.get("is_origin"))
    if content.get("covered") is not None:
        told["covered"] = fields.mark(content["covered"])
    if "wanted_here" in content:
        told["wanted_here"] = bool(content["wanted_here"])
    if "onward" in content:
        told["onward"] = [(fields.text(to), bool(yes)) for to, yes in content["onward"]]
    if "partly" in content:
        told["partly"] = bool(content["partly"])
    if content.get("client") is not None:
        rows = [dict(row) for row in content["client"]["subscriptions"]]
        left_out = fields.count(content["client"].get("left_out", 0))
        told["client"] = {"subscriptions": rows, "left_out": left_out}
    return told


def _both(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The answers of a node to both parts. It may have found the event by its place alone, and may
    have been sent the first part alone."""
    return {**first, **second, "place": first.get("place") or second.get("place")}


@attrs.frozen
class _Onward:
    """Where the event was to go, as those say that have it."""

    wanted: tuple[str, ...]
    denied: tuple[str, ...]
    """Nodes, or units with a slash behind them, to which no way is cleared."""

    @classmethod
    def of(cls, found: Mapping[str, Mapping[str, Any]]) -> _Onward:
        ways = [
            way for each in found.values() if each.get("place") for way in each.get("onward", ())
        ]
        denied = tuple(str(to) for to, cleared in ways if not cleared)
        return cls(tuple(str(to) for to, _ in ways), denied)


def _is_towards(node: str, to: str) -> bool:
    unit = node.rpartition("/")[0]
    return to == node or (to.endswith("/") and f"{unit}.".startswith(f"{to[:-1]}."))


def _verdict(node: str, told: Mapping[str, Any], mark: Mark, onward: _Onward) -> str:
    if told.get("place"):
        return "origin" if told.get("is_origin") else "logged"
    wanted = told.get("wanted_here")
    if wanted is False:
        return "filtered"
    if any(_is_towards(node, to) for to in onward.denied):
        return "denied"
    if wanted is None:
        # It was not shown the event.
        asked_for = any(_is_towards(node, to) for to in onward.wanted)
        return "unknown" if asked_for else "filtered"
    reached = tuple(told.get("covered") or (0, 0))
    return "missing" if reached < mark else "passed-over"


def _at_node(node: str, told: Mapping[str, Any], mark: Mark, onward: _Onward) -> dict[str, Any]:
    verdict, client = _verdict(node, told, mark, onward), told.get("client") or {}
    reason, subscriptions = _REASONS[verdict], []
    for row in client.get("subscriptions", ()):
        if verdict not in HAS_IT and row.get("verdict") in _IS_FOR_IT:
            row = {**row, "verdict": verdict, "reason": reason}
        subscriptions.append(row)
    return {
        "node": node,
        "verdict": verdict,
        "reason": reason,
        "subscriptions": subscriptions,
        "left_out": client.get("left_out", 0),
    }
