"""Answer to an operator who gives up the log of an origin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.cluster.network import Network
from broker.errors import BadName, ConfigurationError
from broker.event.origin import ORIGIN


def give_up_origin(network: Network | None, arguments: Mapping[str, str]) -> dict[str, Any]:
    """Give up `origin`; with `undo` wait for it again.

    Raises `BadName` for no name of a log, or the own one, `ConfigurationError` at a node without a
    network.
    """
    origin, undo = arguments.get("origin", ""), bool(arguments.get("undo"))
    if not ORIGIN.fullmatch(origin):
        raise BadName(f"{origin[:80]!r} is no name of a log")
    if network is None:
        raise ConfigurationError("a node without a network waits for no other node")
    if origin == network.event_log.origin:
        raise BadName("the log is this node's own")
    changed = network.gone.give_up(origin, undo=undo)
    return {
        "origin": origin,
        "changed": changed,
        "given_up": origin in network.gone.given_up,
        "certified": origin in network.gone.certificates,
    }
