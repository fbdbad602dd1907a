"""A client whose login fails."""

from __future__ import annotations

import pytest

from broker.client.client import Client
from broker.errors import BrokerError
from tests.system.node_process import PATIENCE

SECRET = "correct horse battery staple"


async def expect(error: type[BrokerError], client: Client) -> str:
    with pytest.raises(error) as refused:
        await client.when_connected(PATIENCE)
    await client.close()
    return str(refused.value)
