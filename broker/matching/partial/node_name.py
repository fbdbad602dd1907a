"""What `name()`, `local-name()` and `namespace-uri()` say of a node."""

from __future__ import annotations

from broker.matching.shape.tree import Node


def node_name(function: str, node: Node) -> bytes:
    """The name that the function gives; empty for a node without a name."""
    if not node.local:
        return b""
    if function == "namespace-uri":
        return (node.namespace or "").encode()
    if function == "name" and node.prefix:
        return f"{node.prefix}:{node.local}".encode()
    return node.local.encode()
