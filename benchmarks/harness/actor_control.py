"""An actor's side of the control channel: lines of JSON on stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.harness.failure import BenchmarkFailed
from broker.errors import BrokerError


class ActorControl:
    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def report(self, what: str, **figures: Any) -> None:
        print(json.dumps({"says": what, **figures}), flush=True)

    async def wait_for_start(self) -> dict[str, Any]:
        """Return the parameters of the run."""
        message: dict[str, Any] = await self.read_message()
        return message

    async def read_message(self) -> Any:
        line = await self._reader.readline()
        if not line:
            raise BenchmarkFailed("the benchmark is over")
        return json.loads(line)


def run_actor(play: Callable[[ActorControl, Any], Coroutine[Any, Any, None]]) -> None:
    """Run `play` with its control channel and the task from stdin."""
    try:
        asyncio.run(_run(play))
    except (BenchmarkFailed, BrokerError, OSError) as error:
        print(json.dumps({"says": "failed", "why": str(error)}), flush=True)
        sys.exit(1)


async def _run(play: Callable[[ActorControl, Any], Coroutine[Any, Any, None]]) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    control = ActorControl(reader)
    await play(control, await control.read_message())
