"""Operations on a stack at one node, or at all nodes of the network (`xmlbroker mesh`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from twisted.internet.defer import Deferred

from broker.errors import (
    BadName,
    BrokerError,
    NotConnected,
    ProtocolError,
    UnknownDestination,
    UnknownStack,
    from_wire,
)
from broker.identity import Identity
from broker.streams.instance import TransportInstance
from broker.streams.operation import IOperatedTransport
from broker.streams.transports import StreamTransports
from broker.subscriptions.durable_answers import AnsweringNodes
from broker.wire.codec import Schema, WireErrorFields, pack
from broker.wire.messages import Ask

OPERATE_QUESTION: Final = "operate"
_SHOW: Final = "show"
#: Stack, action, and the name of the node; empty: each node.
_QUESTION: Final = Schema[tuple[str, str, str]](tuple[str, str, str], "operation")
_ANSWER: Final = Schema["_Answer"](
    tuple[str, WireErrorFields | None, dict[str, Any] | None], "answer to an operation"
)


class _Answer(NamedTuple):
    """Answer of one node with the stack. Without a result it is not the node of the operation."""

    name: str
    error: Any = None
    result: Mapping[str, Any] | None = None


class OperationAnswers:
    """A client needs the right to administer the node that it asks."""

    def __init__(
        self,
        name: str,
        transports: Callable[[], StreamTransports | None],
        others: AnsweringNodes | None,
    ) -> None:
        """`name` is that of this node."""
        self._name = name
        self._transports = transports
        self._others = others
        if others is not None:
            others.register_answerer(OPERATE_QUESTION, self._answer_for_node)

    def answer(self, identity: Identity, ask: Ask) -> Any:
        """Carry out the `action` at the `node` of a `stack`; without an action, show all nodes.

        Return the stack, the state of each node with its address, and the silent nodes.
        """
        identity.check_administer()
        stack, node, action = (ask.arguments.get(each, "") for each in ("stack", "node", "action"))
        if not node and action not in ("", _SHOW):
            raise BadName(f"{action[:64]!r} needs the name of a node")
        return Deferred.fromCoroutine(self._operate(stack, node, action or _SHOW))

    async def _operate(self, stack: str, node: str, action: str) -> dict[str, Any]:
        stack = stack or self._only_stack()
        found, silent = await self._ask_all(stack, node, action)
        if not found:
            here = ", ".join(sorted(self._instances())) or "none"
            note = f"; without an answer: {', '.join(silent)}" if silent else ""
            raise UnknownStack(
                f"no node has a stack {stack[:64]!r} that is operated; of these this node is: "
                f"{here}{note}"
            )
        for answer in found.values():
            if answer.error is not None:
                raise from_wire(answer.error)
        rows = [
            {"node": address, **answer.result}
            for address, answer in found.items()
            if answer.result is not None
        ]
        if node and not rows:
            if any(each.rpartition("/")[2] == node for each in silent):
                raise NotConnected(f"the node {node[:64]!r} does not answer")
            names = ", ".join(sorted(each.name for each in found.values()))
            note = f"; without an answer: {', '.join(silent)}" if silent else ""
            raise UnknownDestination(f"{stack} has no node {node[:64]!r}; its nodes: {names}{note}")
        return {"stack": stack, "nodes": rows, "silent": silent}

    async def _ask_all(
        self, stack: str, node: str, action: str
    ) -> tuple[dict[str, _Answer], list[str]]:
        """Return the answers of the nodes that have the stack, by address, and silent nodes."""
        found: dict[str, _Answer] = {}
        others = self._others
        own = self._answer_here(stack, action, node)
        if own is not None:
            found[(others.own_address if others is not None else "") or self._name] = own
        if others is None:
            return found, []
        gathered = await others.ask_all_nodes(OPERATE_QUESTION, pack((stack, action, node)))
        silent = list(gathered.silent)
        for address, content in sorted(gathered.answers.items()):
            if not content:
                continue
            try:
                found[address] = _Answer(*_ANSWER.decode(content))
            except ProtocolError:
                silent.append(address)
        return found, sorted(silent)

    def _answer_for_node(self, asked: bytes) -> tuple[bytes, int] | None:
        """Answer another node, whose client it has checked."""
        try:
            answer = self._answer_here(*_QUESTION.decode(asked))
        except ProtocolError:
            return None
        return (b"" if answer is None else pack(tuple(answer)), 0)

    def _answer_here(self, stack: str, action: str, node: str) -> _Answer | None:
        """Operate this node, if it is meant; None without the stack."""
        instance = self._instances().get(stack)
        if instance is None:
            return None
        if node not in ("", self._name, "" if self._others is None else self._others.own_address):
            return _Answer(self._name)
        try:
            result = instance.ask(IOperatedTransport, lambda transport: transport.operate(action))
        except BrokerError as error:
            return _Answer(self._name, error.to_wire())
        assert isinstance(result, Mapping)
        return _Answer(self._name, None, result)

    def _instances(self) -> Mapping[str, TransportInstance]:
        found = self._transports() or ()
        return {each.instance: each for each in found if each.provides(IOperatedTransport)}

    def _only_stack(self) -> str:
        names: Sequence[str] = sorted(self._instances())
        if not names:
            raise UnknownStack("no stack of this node is a mesh, or can be operated otherwise")
        if len(names) > 1:
            raise UnknownStack(f"name one of the stacks of this node: {', '.join(names)}")
        return names[0]
