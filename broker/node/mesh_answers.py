"""Answers to clients that join a mesh (DCP D5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from broker.errors import NoMesh
from broker.event.stream import StreamPattern
from broker.identity import Identity
from broker.streams.instance import TransportInstance
from broker.streams.leaf_contract import ILeafTransport
from broker.streams.ticket import TICKET_SECONDS
from broker.streams.transports import StreamTransports
from broker.wire.messages import Ask


class MeshAnswers:
    """A client gets a ticket for streams that it may subscribe to, with its own clearance."""

    def __init__(self, transports: Callable[[], StreamTransports | None]) -> None:
        self._transports = transports

    def answer_ticket(self, identity: Identity, ask: Ask) -> Mapping[str, Any]:
        """Return a ticket, its life in seconds, and the mesh.

        Raises the errors of a subscription to the streams, and `NoMesh`.
        """
        pattern = StreamPattern.parse(ask.arguments.get("streams", ">"))
        identity.check_subscribe(pattern)
        transports = self._transports()
        if transports is not None:
            transports.check_pattern(pattern)
        instance = _find_mesh(transports, pattern)
        assert transports is not None
        description = instance.ask(ILeafTransport, lambda mesh: mesh.describe_leaf())
        rank = min(identity.clearance.rank, instance.clearance.rank)
        name = instance.instance
        signed = transports.sign_ticket(name, identity.client_id, pattern, rank)
        return {
            "stack": name,
            "use": instance.plugin.name,
            "patterns": [each.text for each in instance.patterns if each.overlaps(pattern)],
            "ticket": signed.ticket,
            "seconds": TICKET_SECONDS,
            "mesh": cast(Mapping[str, object], description),
            "proof_key": signed.proof_key,
        }


def _find_mesh(transports: StreamTransports | None, pattern: StreamPattern) -> TransportInstance:
    """Return the only mesh with streams of a pattern. Raises `NoMesh`."""
    found = [
        each
        for each in transports or ()
        if each.provides(ILeafTransport) and any(map(pattern.overlaps, each.patterns))
    ]
    if not found:
        raise NoMesh(f"no mesh carries streams {pattern.text} at this node")
    if len(found) > 1:
        names = ", ".join(
            f"{each.instance} ({', '.join(one.text for one in each.patterns)})" for each in found
        )
        raise NoMesh(f"several meshes carry streams {pattern.text}, name those of one: {names}")
    return found[0]
