from __future__ import annotations

import asyncio
import io
import os

from broker.cli.event_format import as_payload
from broker.cli.output import Output
from broker.cli.stop_signal import Stop
from tests.cli.fake_node import received


def test_a_closed_pipe_ends_the_command_quietly() -> None:
    async def print_into_a_broken_pipe() -> None:
        reading, writing = os.pipe()
        stop = Stop()
        with open(writing, "wb") as pipe:
            output = Output(pipe, as_payload, stop, json=False, is_unbuffered=True)
            output.print_event(received(1))
            assert (output.events, output.is_broken, bool(stop)) == (1, False, False)
            os.close(reading)
            output.print_event(received(2))
            assert (output.events, output.is_broken, bool(stop)) == (1, True, True)
            assert output.last_event is not None
            assert output.last_event.place.offset == 1
            output.print_event(received(3))
            assert output.events == 1
        # Closing flushes the rest without an error.

    asyncio.run(print_into_a_broken_pipe())


def test_a_burst_is_written_in_the_next_turn_of_the_loop() -> None:
    async def print_a_burst() -> None:
        reading, writing = os.pipe()
        with open(reading, "rb") as written, open(writing, "wb") as pipe:
            output = Output(pipe, as_payload, Stop(), json=False, is_unbuffered=False)
            os.set_blocking(reading, False)
            for number in range(10):
                output.print_event(received(number))
            assert written.read() is None
            await asyncio.sleep(0)
            assert written.read().count(b"\n") == 10

    asyncio.run(print_a_burst())


def test_the_buffer_is_bounded() -> None:
    async def print_much() -> None:
        written = io.BytesIO()
        output = Output(written, as_payload, Stop(), json=False, is_unbuffered=False)
        for number in range(7):
            output.print_event(received(number, b"<a>%s</a>" % (b"x" * 10_000)))
        assert len(written.getvalue()) > 60_000

    asyncio.run(print_much())
