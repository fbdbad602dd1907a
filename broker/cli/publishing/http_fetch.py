"""One conditional fetch by HTTP or HTTPS, bounded in size, time and redirects. It blocks."""

from __future__ import annotations

import hashlib
import http.client
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final, cast
from urllib.parse import urlsplit

import attrs

import broker

MAX_REDIRECTS: Final = 5
_SCHEMES: Final = ("http", "https")
_PORTION: Final = 64 << 10
#: Bytes of an answer in memory; the rest is in a file without a name.
_MAX_IN_MEMORY: Final = 1 << 20
#: Characters of a validator; a longer one is ignored.
_MAX_VALIDATOR: Final = 512
_NOT_MODIFIED: Final = 304


class FetchError(Exception):
    """The text is the reason."""


@attrs.frozen
class FetchLimits:
    max_bytes: int = 1 << 30
    """Bytes of the answer, as they are sent."""
    timeout: float = 300.0
    """Seconds of the whole fetch."""
    silence: float = 20.0
    """Seconds without a byte."""


@attrs.frozen
class Validators:
    """State of an address, by which the next fetch finds out whether it changed."""

    etag: str = ""
    modified: str = ""
    digest: str = ""
    """Hash of the body, for servers without the others."""


@attrs.frozen
class Answer:
    body: IO[bytes] | None
    """To be closed; None: nothing changed."""
    validators: Validators


def check_url(url: str) -> None:
    """Raises ValueError."""
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("it has characters that URLs do not have: percent-encode them")
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError("it is not an address such as https://example.org/feed.atom")
    if "@" in parts.netloc:
        raise ValueError("an address with a user name is not supported")
    # It is parsed on access.
    _ = parts.port


def fetch(url: str, known: Validators, limits: FetchLimits = FetchLimits()) -> Answer:
    """Raises `FetchError`."""
    deadline = _Deadline(limits.timeout)
    headers = {"User-Agent": f"xmlbroker/{broker.__version__}", "Accept-Encoding": "gzip"}
    if known.etag:
        headers["If-None-Match"] = known.etag
    if known.modified:
        headers["If-Modified-Since"] = known.modified
    try:
        request = urllib.request.Request(url, headers=headers)
        opener = urllib.request.build_opener(_Http(deadline), _Https(deadline), _Redirects())
        with deadline, opener.open(request, timeout=limits.silence) as response:
            return _read_answer(response, known, limits, deadline)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == _NOT_MODIFIED:
                return Answer(None, known)
            raise FetchError(f"the server answers {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        if deadline.is_over:
            raise FetchError(f"no complete answer within {limits.timeout:g} s") from None
        raise FetchError(_describe(error, limits)) from None


def _read_answer(
    response: Any, known: Validators, limits: FetchLimits, deadline: _Deadline
) -> Answer:
    if response.status != http.client.OK:
        raise FetchError(f"the server answers {response.status} {response.reason}")
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise FetchError(f"the content encoding {encoding[:40]!r} is not supported")
    # The body's first bytes show whether it is compressed.
    body = cast(IO[bytes], SpooledTemporaryFile(_MAX_IN_MEMORY))
    try:
        digest = hashlib.sha256()
        size = 0
        while portion := response.read1(_PORTION):
            size += len(portion)
            if size > limits.max_bytes:
                raise FetchError(f"the answer is larger than {limits.max_bytes} bytes")
            digest.update(portion)
            body.write(portion)
            if deadline.is_over:
                break
        # The end of the connection looks like that of the answer.
        if deadline.is_over:
            raise TimeoutError
        if response.length:
            raise FetchError("the answer is cut short")
        body.seek(0)
    except BaseException:
        body.close()
        raise
    validators = Validators(
        _validator(response.headers.get("ETag")),
        _validator(response.headers.get("Last-Modified")),
        digest.hexdigest(),
    )
    if validators.digest == known.digest:
        body.close()
        return Answer(None, validators)
    return Answer(body, validators)


def _validator(value: str | None) -> str:
    usable = value and len(value) <= _MAX_VALIDATOR and value.isascii() and value.isprintable()
    return value if usable and value else ""


def _describe(error: Exception, limits: FetchLimits) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return f"no answer within {limits.silence:g} s"
    if isinstance(reason, http.client.HTTPException):
        return f"the answer is not HTTP, or is cut short: {reason or type(reason).__name__}"
    return str(getattr(reason, "strerror", None) or reason or type(reason).__name__)


class _Deadline:
    """Ends the connections of a fetch that takes too long: a server may send a byte at a time."""

    def __init__(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True
        self._ends = time.monotonic() + seconds
        self._sockets: list[socket.socket] = []

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends

    def watch(self, connected: socket.socket) -> None:
        self._sockets.append(connected)

    def _expire(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


def _watched(kind: type[http.client.HTTPConnection], deadline: _Deadline) -> Callable[..., Any]:
    class Connection(kind):  # type: ignore[misc, valid-type]
        def connect(self) -> None:
            super().connect()
            deadline.watch(self.sock)

    return Connection


class _Http(urllib.request.HTTPHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_watched(http.client.HTTPConnection, self._deadline), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def https_open(self, req: urllib.request.Request) -> Any:
        # Its default context checks the certificate and the host's name.
        return self.do_open(_watched(http.client.HTTPSConnection, self._deadline), req)


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = max_repeats = MAX_REDIRECTS

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        scheme = urlsplit(newurl).scheme
        if scheme not in _SCHEMES or (req.type == "https" and scheme != "https"):
            raise FetchError(f"the server redirects to {newurl[:200]}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
