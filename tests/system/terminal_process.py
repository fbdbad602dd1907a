"""A command on a pseudo-terminal."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from types import TracebackType

from tests.system.node_process import PATIENCE, ROOT

_ROW = re.compile(r"\x1b\[(\d+);1H(?:\x1b\[[0-9;]*m)*([^\x1b]*)\x1b\[0m\x1b\[K")


class TerminalProcess:
    """`xmlbroker` with a terminal of 24 lines and 100 columns; the context manager ends it."""

    def __init__(self, arguments: Sequence[str]) -> None:
        """A loop must run."""
        self._text = ""
        self._changed = asyncio.Event()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "broker.cli", *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        asyncio.get_running_loop().add_reader(self._master, self._read)

    @property
    def text(self) -> str:
        """All output."""
        return self._text

    @property
    def rows(self) -> list[str]:
        """The rows of a full screen, as drawn last."""
        found: dict[int, str] = {}
        for number, text in _ROW.findall(self._text):
            found[int(number)] = text.rstrip()
        return [found[number] for number in sorted(found)]

    async def wait_for_rows(self, *patterns: str) -> None:
        """Wait until rows match the patterns, one below the other."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not re.search(".*\n(?:.*\n)*?.*".join(patterns), "\n".join(self.rows)):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            rows = "\n".join(self.rows)
            raise AssertionError(f"no {patterns!r} in\n{rows}") from None

    def enter(self, text: str) -> None:
        os.write(self._master, text.encode())

    async def wait_for(self, pattern: str, after: int = 0) -> re.Match[str]:
        """Return the first match in the output behind some characters."""
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    self._changed.clear()
                    found = re.compile(pattern).search(self._text, after)
                    if found is not None:
                        return found
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"no {pattern!r} in\n{self._text}") from None

    async def wait_for_exit(self) -> int:
        return await asyncio.to_thread(self._process.wait, PATIENCE)

    def __enter__(self) -> TerminalProcess:
        return self

    def __exit__(
        self,
        kind: builtins.type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._master)
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    def _read(self) -> None:
        # Linux reports EIO when the other end is closed.
        with contextlib.suppress(OSError):
            data = os.read(self._master, 65_536)
            self._text += data.decode("utf-8", "replace")
            self._changed.set()
            return
        asyncio.get_running_loop().remove_reader(self._master)
        self._changed.set()


@contextlib.contextmanager
def on_terminals(*commands: Sequence[str]) -> Iterator[list[TerminalProcess]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(TerminalProcess(each)) for each in commands]
