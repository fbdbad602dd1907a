"""The fate of one event at each node of the network, for `explain` (N7).

A client is told only of an event that it may read, and whose bytes it has shown: so an EventId
alone tells nobody whether such an event exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import attrs
import msgpack

from broker.content.contract import Accepted, IMatcher
from broker.event.envelope import Header
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.identity import Identity
from broker.router.tracing import TRACE, NodeTrace, TraceQuestion
from broker.session import fields

#: Verdicts of a node that has the event in its log.
HAS_IT: Final = frozenset({"origin", "logged"})
_REASONS: Final = {
    "origin": "it was published here",
    "logged": "it is in this node's log",
    "filtered": "nothing at this node asks for it",
    "denied": "no way to this node is cleared for its security level",
    "missing": "it has not come yet: what its origin published since has not been seen here either",
    "passed-over": "it is wanted here now, and was not when it passed; or it was lost, which a gap "
    "tells",
    "unknown": "this node can not tell: it can not be shown the event, or does not know its type",
}


class Gathered(Protocol):
    """Answers of other nodes by address, and who did not answer."""

    @property
    def answers(self) -> Mapping[str, bytes]: ...
    @property
    def silent(self) -> Sequence[str]: ...


class Others(Protocol):
    """All other nodes of the network: see `broker.cluster.questions.Questions`."""

    @property
    def own(self) -> str:
        """The address of this node; empty in no cluster."""

    async def ask_others(self, what: str, content: bytes, rank: int = 0) -> Gathered:
        """Ask them all. `rank` is what links must be cleared for."""


@attrs.frozen
class _Nothing:
    answers: Mapping[str, bytes] = attrs.field(factory=dict)
    silent: Sequence[str] = ()


class Nobody:
    """The other nodes where there is no network."""

    own = ""

    async def ask_others(self, what: str, content: bytes, rank: int = 0) -> Gathered:
        """There is nobody."""
        return _Nothing()


class EventFate:
    """Asks all nodes, and puts together what they answer."""

    def __init__(self, matcher: IMatcher, trace: NodeTrace, others: Others, name: str) -> None:
        """`name` is what this node is called where it is in no cluster."""
        self._matcher = matcher
        self._trace = trace
        self._others = others
        self._name = name

    async def of(self, identity: Identity, document: bytes, client: str) -> dict[str, Any] | None:
        """Plain content: `known`, `place`, and `nodes` with their verdicts; `silent` ones.

        None where the event is none that could have been published here.
        """
        (verdict,) = self._matcher.match([document])
        if not isinstance(verdict, Accepted):
            return None
        header = verdict.header
        if not _may_read(identity, header):
            return {"known": None, "place": None, "here": "", "nodes": [], "silent": []}
        own = self._others.own or self._name
        first = TraceQuestion.of(header, document, client)
        found = {own: await self._trace.look(first)}
        gathered = await self._others.ask_others(TRACE, first.encode())
        found |= _decoded(gathered.answers)
        place = next((each["place"] for each in found.values() if each.get("place")), None)
        told: dict[str, Any] = {"known": place is not None, "place": None, "here": own, "nodes": []}
        told["silent"] = sorted(gathered.silent)
        if place is None:
            return told
        rank = header.security_level.rank
        second = first.with_document(document, str(place[0]))
        wants = {own: await self._trace.look(second)}
        wants |= _decoded((await self._others.ask_others(TRACE, second.encode(), rank)).answers)
        origin, epoch, offset = place
        told["place"] = f"{origin}:{epoch}:{offset}"
        told["nodes"] = [
            _at_node(node, _both(wants.get(node, {}), each), (epoch, offset), _Onward.of(found))
            for node, each in sorted(found.items())
        ]
        return told


def _may_read(identity: Identity, header: Header) -> bool:
    if identity.administer:
        return True
    stream = StreamPattern.parse(header.stream)
    return identity.rights.may_subscribe(stream) and identity.is_cleared(header.security_level)


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
        origin, epoch, offset = content["place"]
        told["place"] = (fields.text(origin), *fields.mark((epoch, offset)))
        told["is_origin"] = bool(content.get("is_origin"))
    if content.get("covered") is not None:
        told["covered"] = fields.mark(content["covered"])
    if "wanted_here" in content:
        told["wanted_here"] = bool(content["wanted_here"])
    told["onward"] = [(fields.text(to), bool(yes)) for to, yes in content.get("onward", ())]
    if content.get("client") is not None:
        rows = [dict(row) for row in content["client"]["subscriptions"]]
        told["client"] = {"subscriptions": rows}
    return told


def _both(second: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """The answers of a node to both parts; that of the first counts where it has the event."""
    return {**second, **first} if first.get("place") else {**first, **second, "place": None}


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
    verdict = _verdict(node, told, mark, onward)
    subscriptions = []
    for row in (told.get("client") or {}).get("subscriptions", ()):
        if verdict not in HAS_IT and row.get("verdict") in ("delivered", "catching-up", "away"):
            row = {**row, "verdict": verdict, "reason": _REASONS[verdict]}
        subscriptions.append(row)
    reason = _REASONS[verdict]
    return {"node": node, "verdict": verdict, "reason": reason, "subscriptions": subscriptions}
