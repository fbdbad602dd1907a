"""The validating child process as its parent uses it: started on demand, and after each limit."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Final

import attrs
import msgspec
from twisted.logger import Logger

from broker.dtd.xsd.frames import Reply, Request, receive_frame, send_frame

#: Seconds; the processor time is limited in the child process.
ANSWER_SECONDS: Final = 10.0
#: Seconds for which a schema is not used after it took too long. They double each time.
FIRST_PAUSE: Final = 10.0
MAX_PAUSE: Final = 600.0
#: Schemas that are paused; beyond it the oldest is forgotten.
MAX_PAUSED: Final = 1_000
#: Seconds that a document, and each of its bytes, may take: ten times the usual. What it takes
#: beyond that is a debt.
USUAL_SECONDS: Final = 0.002
USUAL_SECONDS_OF_BYTE: Final = 2e-7
#: Seconds of debt beyond which a schema is paused, and the part of the time that pays it back.
MAX_DEBT: Final = 0.25
PAID_SHARE: Final = 0.1

_REPLIES: Final = msgspec.msgpack.Decoder(Reply)


@attrs.frozen
class _Pause:
    until: float
    seconds: float


class SchemaValidator:
    """Calls wait for the answer: usually 0.1 ms, at most the limits of the worker.

    A schema that ends the child process is paused: all events of the type are refused meanwhile. So
    is one on which documents take much longer than usual, when such time exceeds a tenth of all.
    """

    _log = Logger()

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._paused: OrderedDict[str, _Pause] = OrderedDict()
        self._debt, self._paid_at = 0.0, clock()
        self.started = 0
        """Child processes so far."""

    def compile(self, schema: str, packed: bytes, owner: str) -> Reply:
        """Compile the schema with the hash `schema`. `owner` names it in the log."""
        return self._ask(Request(schema, packed), owner)

    def check(self, schema: str, packed: bytes, document: bytes, owner: str) -> Reply:
        """Validate a document by a schema."""
        reply = self._ask(Request(schema, None, document), owner)
        if reply.is_unknown:
            reply = self._ask(Request(schema, packed, document), owner)
        return reply

    def close(self) -> None:
        """End the child process. The next call starts another one."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._connection = None

    def _ask(self, request: Request, owner: str) -> Reply:
        pause = self._paused.get(request.schema)
        if pause is not None and self._clock() < pause.until:
            return Reply(
                "its schema has taken too long on other documents, and is not used for "
                f"{pause.until - self._clock():.0f} s",
                is_undecided=True,
            )
        if self._process is not None and self._process.poll() is not None:
            # It has ended in order, or someone has ended it: no request is to blame.
            self.close()
        is_new = self._connection is None
        reply = self._exchange(request)
        if reply is None and not is_new and self._ended_in_order():
            # The process had reached the age at which it ends.
            reply = self._exchange(request)
        if reply is not None:
            if request.packed is None:
                self._charge(request, reply, owner)
            return reply
        reason = self._find_reason()
        self.close()
        self._pause(request.schema, owner, reason)
        return Reply(f"its schema {reason}", is_undecided=True)

    def _charge(self, request: Request, reply: Reply, owner: str) -> None:
        usual = USUAL_SECONDS + USUAL_SECONDS_OF_BYTE * len(request.document or b"")
        if reply.seconds > usual:
            now = self._clock()
            paid = PAID_SHARE * (now - self._paid_at)
            self._debt = max(0.0, self._debt - paid) + reply.seconds - usual
            self._paid_at = now
            if self._debt > MAX_DEBT:
                self._pause(request.schema, owner, "takes too long on many documents")

    def _exchange(self, request: Request) -> Reply | None:
        """Return None if the child process has ended, or does not answer."""
        try:
            connection = self._connection or self._start()
            send_frame(connection, request)
            frame = receive_frame(connection)
            return None if frame is None else _REPLIES.decode(frame)
        except (OSError, msgspec.DecodeError):
            return None

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "broker.dtd.xsd.worker"],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=environment,
                )
            except OSError:
                ours.close()
                raise
        ours.settimeout(ANSWER_SECONDS)
        self._connection = ours
        self.started += 1
        return ours

    def _ended_in_order(self) -> bool:
        if self._process is None:
            return False
        with suppress(subprocess.TimeoutExpired):
            if self._process.wait(1.0) == 0:
                self.close()
                return True
        return False

    def _find_reason(self) -> str:
        if self._process is None:
            return "can not be used: no process can be started"
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(1.0)
            if code == -signal.SIGPROF:
                return "takes too long"
            return f"has ended the process that uses it (code {code})"
        return f"has not answered in {ANSWER_SECONDS:.0f} s"

    def _pause(self, schema: str, owner: str, reason: str) -> None:
        known = self._paused.pop(schema, None)
        seconds = FIRST_PAUSE if known is None else min(2 * known.seconds, MAX_PAUSE)
        self._paused[schema] = _Pause(self._clock() + seconds, seconds)
        self._log.warn(
            "the schema of {owner} {reason}: events of the type are refused for {seconds} s",
            owner=owner,
            reason=reason,
            seconds=round(seconds),
        )
        if len(self._paused) > MAX_PAUSED:
            self._paused.popitem(last=False)


@lru_cache(maxsize=1)
def shared_validator() -> SchemaValidator:
    """Return the validator of this process."""
    return SchemaValidator()
