"""Chunks over TCP, spliced by a relay: the sender, the relay, or the receiver.

Each chunk begins with the time at which it was sent: the clock is that of the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import sys
import time
from typing import Any, Final

_PORT: Final = 7000
_TIME: Final = struct.Struct(">d")
_PIECE: Final = 65_536
#: Errors that end a connection. asyncio of Python 3.11 logs a cancelled handler with a traceback.
_ENDS: Final = (OSError, asyncio.IncompleteReadError, asyncio.CancelledError)
#: Seconds in which all connections are made.
_CONNECTED_WITHIN: Final = 60.0


def report(what: str, **figures: Any) -> None:
    print(json.dumps({"says": what, **figures}), flush=True)


async def receive(task: dict[str, Any]) -> None:
    latencies: list[float] = []

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(*_ENDS):
            while True:
                chunk = await reader.readexactly(task["size"])
                latencies.append(time.monotonic() - _TIME.unpack_from(chunk)[0])

    async with await asyncio.start_server(read, task["address"], _PORT):
        report("ready")
        # The sender has ended when this line comes.
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.sleep(task["end"])
        report("done", latencies=latencies)


async def relay(task: dict[str, Any]) -> None:
    async def splice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(*_ENDS):
            _, onward = await asyncio.open_connection(task["onward"], _PORT)
            _send_at_once(onward)
            while data := await reader.read(_PIECE):
                onward.write(data)

    async with await asyncio.start_server(splice, task["address"], _PORT):
        report("ready")
        await asyncio.to_thread(sys.stdin.readline)


async def send(task: dict[str, Any]) -> None:
    count, gap = task["connections"], task["gap"]
    writers = await asyncio.wait_for(
        asyncio.gather(*(_connect(task["onward"]) for _ in range(count))), _CONNECTED_WITHIN
    )
    # The relay connects onward.
    await asyncio.sleep(task["end"])
    report("begun")
    await asyncio.gather(
        *(
            _send_chunks(writer, task, time.monotonic() + gap * number / count)
            for number, writer in enumerate(writers)
        )
    )
    report("done")
    await asyncio.to_thread(sys.stdin.readline)


async def _connect(host: str) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection(host, _PORT)
    _send_at_once(writer)
    return writer


async def _send_chunks(writer: asyncio.StreamWriter, task: dict[str, Any], begin: float) -> None:
    for number in range(task["chunks"]):
        await asyncio.sleep(max(0.0, begin + number * task["gap"] - time.monotonic()))
        writer.write(_TIME.pack(time.monotonic()).ljust(task["size"], b"."))


def _send_at_once(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def main() -> None:
    task = json.loads(sys.stdin.readline())
    asyncio.run({"receive": receive, "relay": relay, "send": send}[task["part"]](task))


if __name__ == "__main__":
    main()
