"""Status of a node, through the client library."""

from __future__ import annotations

import asyncio
from typing import Any

from broker.client.asyncio_face import connect


def read_status(endpoint: str) -> dict[str, Any]:
    """See `broker.node.status`."""

    async def ask() -> dict[str, Any]:
        async with connect(endpoint) as client:
            await client.when_connected(10.0)
            answer: dict[str, Any] = await client.ask("status")
            return answer

    return asyncio.run(ask())
