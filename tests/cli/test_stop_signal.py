from __future__ import annotations

import asyncio
import os
import signal

import pytest

from broker.cli.stop_signal import Stop, stop_on_signals


def test_a_signal_ends_the_work_and_is_stored() -> None:
    async def wait() -> Stop:
        with stop_on_signals() as stop:
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
            assert await stop.run_or_cancel(asyncio.sleep(3600, "done")) is None
        return stop

    stop = asyncio.run(wait())
    assert stop
    assert stop.exit_status == 128 + signal.SIGTERM


def test_the_second_signal_does_what_it_does_by_default() -> None:
    async def wait() -> None:
        with stop_on_signals() as stop:
            loop = asyncio.get_running_loop()
            loop.call_soon(os.kill, os.getpid(), signal.SIGINT)
            await stop.pause(3600)
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(3600)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(wait())


def test_work_that_is_done_gives_its_result() -> None:
    async def wait() -> str | None:
        with stop_on_signals() as stop:
            return await stop.run_or_cancel(asyncio.sleep(0, "done"))

    assert asyncio.run(wait()) == "done"


def test_work_that_fails_fails() -> None:
    async def fail() -> None:
        raise OSError("no")

    async def wait() -> None:
        await Stop().run_or_cancel(fail())

    with pytest.raises(OSError, match="no"):
        asyncio.run(wait())


def test_a_stop_without_a_signal_has_status_0() -> None:
    async def wait() -> Stop:
        stop = Stop()
        stop.request()
        await stop.pause(3600)
        return stop

    assert asyncio.run(wait()).exit_status == 0
