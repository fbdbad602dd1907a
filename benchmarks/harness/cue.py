"""An actor's end of its conversation with the benchmark: lines of JSON on stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.harness.failure import BenchmarkFailed
from broker.errors import BrokerError


class Cue:
    """Where an actor says how far it is, and waits to be told to go on."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def say(self, what: str, **figures: Any) -> None:
        """Report to the benchmark."""
        print(json.dumps({"says": what, **figures}), flush=True)

    async def go(self) -> dict[str, Any]:
        """Wait to be told to begin, and what has to be known for that."""
        told: dict[str, Any] = await self.told()
        return told

    async def told(self) -> Any:
        """The next thing that the benchmark says."""
        line = await self._reader.readline()
        if not line:
            raise BenchmarkFailed("the benchmark is over")
        return json.loads(line)


def act(play: Callable[[Cue, Any], Coroutine[Any, Any, None]]) -> None:
    """Run an actor: `play` gets its cue and what the first line of stdin says."""
    try:
        asyncio.run(_act(play))
    except (BenchmarkFailed, BrokerError, OSError) as error:
        print(json.dumps({"says": "failed", "why": str(error)}), flush=True)
        sys.exit(1)


async def _act(play: Callable[[Cue, Any], Coroutine[Any, Any, None]]) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    cue = Cue(reader)
    await play(cue, await cue.told())
