"""Fetch DTDs from an event's system identifier, only below allowed addresses (K29).

A publisher can write any address: in the node's network, of a silent host, or of gigabytes. So none
is allowed by default.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import SplitResult, urlsplit

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.http_headers import Headers
from twisted.web.iweb import UNKNOWN_LENGTH, IAgent, IResponse
from zope.interface import implementer

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdSource
from broker.dtd.reference import DtdReference
from broker.errors import ConfigurationError, ForbiddenPointer, UnknownType

_PORTS: Final = {"http": 80, "https": 443}
# No percent sign, backslash or query: servers decode them differently.
_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@/-]*")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\]")
_MAX_POINTER: Final = 2048


@attrs.frozen
class AllowedPrefix:
    """All pointers on one server below one path."""

    scheme: str
    host: str
    port: int
    path_prefix: str
    #: It begins and ends with a slash: `/dtd/` does not allow `/dtd-private/`.

    @classmethod
    def parse(cls, url: str) -> AllowedPrefix:
        """Raises `ConfigurationError`."""
        try:
            scheme, host, port, path = _split_pointer(url)
        except ForbiddenPointer as error:
            raise ConfigurationError(
                f"{url!r} can not be an allowed address: {error.text}"
            ) from error
        return cls(scheme, host, port, path if path.endswith("/") else f"{path}/")

    def covers(self, scheme: str, host: str, port: int, path: str) -> bool:
        same_server = (scheme, host, port) == (self.scheme, self.host, self.port)
        return same_server and path.startswith(self.path_prefix)


def _split_pointer(url: str) -> tuple[str, str, int, str]:
    """Return scheme, host, port and path. Raises `ForbiddenPointer`."""
    if len(url) > _MAX_POINTER or not url.isascii() or not url.isprintable() or " " in url:
        raise ForbiddenPointer("the pointer is too long or has characters that URLs do not have")
    try:
        parts: SplitResult = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ForbiddenPointer(f"the pointer is not a URL: {error}") from error
    if parts.scheme not in _PORTS:
        raise ForbiddenPointer(f"the scheme {parts.scheme!r} is not fetched: only http and https")
    if "@" in parts.netloc or parts.query or parts.fragment or "?" in url or "#" in url:
        raise ForbiddenPointer("a pointer may have no user, query or fragment")
    host = parts.netloc.rpartition(":")[0] if port is not None else parts.netloc
    host = host.lower()
    if _HOST.fullmatch(host) is None:
        raise ForbiddenPointer(f"{host[:80]!r} is not a host name")
    path = parts.path or "/"
    segments = path.split("/")[1:]
    if _PATH.fullmatch(path) is None or {".", ".."} & set(segments) or "" in segments[:-1]:
        raise ForbiddenPointer(f"the path {path[:80]!r} is not in its simplest form")
    return parts.scheme, host, port if port is not None else _PORTS[parts.scheme], path


@attrs.frozen
class PointerLimits:
    max_bytes: int = 256 * 1024
    #: Bytes of the body.

    timeout: float = 5.0
    #: Seconds for the whole fetch.


@implementer(IDtdSource)
class PointerSource:
    """Fetches DTDs from allowed pointers. Follows no redirect."""

    name = "the event's pointer"

    def __init__(
        self,
        agent: IAgent,
        clock: IReactorTime,
        allowed: Iterable[AllowedPrefix] = (),
        limits: PointerLimits | None = None,
    ) -> None:
        self._agent = agent
        self._clock = clock
        self._allowed = tuple(allowed)
        self._limits = limits or PointerLimits()

    def fetch(self, reference: DtdReference, hint: FetchHint) -> Deferred[bytes]:
        """Fails with `ForbiddenPointer` for an address that is not allowed and for a redirect.
        Fails with `UnknownType` without a pointer, and for a timeout, another status than 200, or
        too many bytes."""
        return Deferred.fromCoroutine(self._fetch(hint.system_id))

    async def _fetch(self, url: str) -> bytes:
        if not url:
            raise UnknownType("the event has no pointer")
        place = _split_pointer(url)
        if not any(allowed.covers(*place) for allowed in self._allowed):
            raise ForbiddenPointer(f"this node does not fetch DTDs from {url}")
        limits = self._limits
        work = Deferred.fromCoroutine(self._get(url))
        work.addTimeout(limits.timeout, self._clock, onTimeoutCancel=_fail_with_timeout)
        try:
            return await work
        except TimeoutError as error:
            raise UnknownType(f"{url}: no answer within {limits.timeout:g} s") from error
        except (UnknownType, ForbiddenPointer):
            raise
        except Exception as error:
            raise UnknownType(f"{url}: {type(error).__name__}: {error}") from error

    async def _get(self, url: str) -> bytes:
        headers = Headers({b"User-Agent": [b"xmlbroker"], b"Accept-Encoding": [b"identity"]})
        response: IResponse = await self._agent.request(b"GET", url.encode("ascii"), headers, None)
        body = _Body(self._limits.max_bytes, url)
        if response.code != 200 or (
            response.length is not UNKNOWN_LENGTH and response.length > self._limits.max_bytes
        ):
            body.discard()
            response.deliverBody(body)
            if 300 <= response.code < 400:
                raise ForbiddenPointer(f"{url}: answers with a redirect, which is not followed")
            if response.code != 200:
                raise UnknownType(f"{url}: answers with status {response.code}")
            raise UnknownType(f"{url}: longer than {self._limits.max_bytes} bytes")
        response.deliverBody(body)
        return await body.finished


def _fail_with_timeout(_result: object, _timeout: float) -> Failure:
    # A cancelled request's own failure varies.
    return Failure(TimeoutError())


class _Body(Protocol):
    """Collects a body, and drops the connection beyond a limit."""

    def __init__(self, limit: int, url: str) -> None:
        self.finished: Deferred[bytes] = Deferred(self._cancelled)
        self._limit = limit
        self._url = url
        self._parts: list[bytes] = []
        self._length = 0
        self._refused = False

    def discard(self) -> None:
        self._refused = True

    def connectionMade(self) -> None:
        if self._refused:
            self._drop()

    def dataReceived(self, data: bytes) -> None:
        if self._refused:
            return
        self._length += len(data)
        self._parts.append(data)
        if self._length > self._limit:
            self._refused = True
            self._parts.clear()
            self._drop()
            self.finished.errback(UnknownType(f"{self._url}: longer than {self._limit} bytes"))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._refused:
            return
        self._refused = True
        if reason.check(ResponseDone):
            self.finished.callback(b"".join(self._parts))
        else:
            self.finished.errback(reason)

    def _cancelled(self, _finished: Deferred[bytes]) -> None:
        self._refused = True
        self._drop()

    def _drop(self) -> None:
        if self.transport is not None:
            self.transport.loseConnection()
