from __future__ import annotations

import hashlib
from typing import Any

from broker.cluster.address import Address
from broker.cluster.descriptor import Endpoint, NodeDescriptor


def a_node(text: str, **fields: Any) -> NodeDescriptor:
    """Return a node that listens at a host of its name."""
    address = Address.parse(text)
    origin = hashlib.sha256(address.node.encode()).hexdigest()[:16]
    node = NodeDescriptor(address, origin, 1, (1,), tcp=Endpoint(address.node, 4000))
    return node._replace(**fields)
