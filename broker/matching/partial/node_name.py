"""Results of `name()`, `local-name()` and `namespace-uri()`."""

from __future__ import annotations

from broker.matching.shape.tree import Node


def node_name(function: str, node: Node) -> bytes:
    """Return the result of the function; empty for a node without a name."""
    if not node.local:
        return b""
    if function == "namespace-uri":
        return (node.namespace or "").encode()
    if function == "name" and node.prefix:
        return f"{node.prefix}:{node.local}".encode()
    return node.local.encode()
