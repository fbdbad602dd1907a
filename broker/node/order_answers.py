"""Answers to questions about the order of streams (`xmlbroker order`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.errors import ClearanceTooLow, UnknownStack
from broker.identity import Identity
from broker.streams.group_operation import IProvingTransport, ISitesTransport
from broker.streams.instance import TransportInstance
from broker.streams.transports import StreamTransports
from broker.wire.messages import Ask


class OrderAnswers:
    """For a proof, a client must have the right and the clearance to read all streams of the
    stack; to change its sites, the right to administer the node."""

    def __init__(self, transports: Callable[[], StreamTransports | None]) -> None:
        self._transports = transports

    def answer_proof(self, identity: Identity, ask: Ask) -> Any:
        """Return the stack and its proof, which is None for an unknown event."""
        arguments = dict(ask.arguments)
        instance = self._find_instance(arguments.pop("stack", ""))
        for pattern in instance.patterns:
            identity.check_subscribe(pattern)
        if not identity.is_cleared(instance.clearance):
            raise ClearanceTooLow(f"the stack carries events up to {instance.clearance.value!r}")
        proof = instance.ask(IProvingTransport, lambda transport: transport.prove(arguments))
        return {"stack": instance.instance, "proof": proof}

    def answer_admit(self, identity: Identity, ask: Ask) -> Any:
        return self._change_sites("admit", identity, ask)

    def answer_remove(self, identity: Identity, ask: Ask) -> Any:
        return self._change_sites("remove", identity, ask)

    def _change_sites(self, action: str, identity: Identity, ask: Ask) -> Any:
        """Return the sites of a stack after a change, when it counts at this node."""
        identity.check_administer()
        name, site, address = (ask.arguments.get(each, "") for each in ("stack", "site", "address"))
        found = [each for each in self._transports() or () if each.provides(ISitesTransport)]
        groups = {each.instance: each for each in found}
        if name not in groups:
            names = ", ".join(sorted(groups)) or "none"
            raise UnknownStack(f"the node is no site of {name!r}; of these groups it is: {names}")
        return groups[name].ask(
            ISitesTransport, lambda transport: transport.change_sites(action, site, address)
        )

    def _find_instance(self, name: str) -> TransportInstance:
        """Return the stack of a name, or the only one that proves its order."""
        proving = [each for each in self._transports() or () if each.provides(IProvingTransport)]
        found = [each for each in proving if name in ("", each.instance)]
        if len(found) == 1:
            return found[0]
        names = ", ".join(sorted(each.instance for each in proving)) or "none"
        raise UnknownStack(f"name one of the stacks that prove their order: {names}")
