"""The handshake of a connection over datagrams (T41).

The listener stores nothing for a dialler until it has proven that it receives at its address. HELLO
is answered by a COOKIE, which OPEN returns. ACCEPT carries the listener's id and nonce. Then both
derive the key.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Hashable
from hashlib import blake2b
from hmac import compare_digest

import attrs

from broker.errors import ProtocolError
from broker.transport.arq.connection_core import ConnectionCore
from broker.transport.arq.counters import HandshakeCounts
from broker.transport.arq.mac import Mac, derive_connection_key
from broker.transport.arq.settings import ArqSettings
from broker.transport.arq.wire import (
    ACCEPT,
    COOKIE,
    COOKIE_BYTES,
    HELLO,
    NONCE_BYTES,
    OPEN,
    REFUSE,
    VERSION,
    Reason,
    contents_of,
    decode_head,
    decode_reason,
    encode_plain,
    encode_refuse,
)
from broker.transport.backoff import Backoff

#: `secrets.token_bytes`, or a seeded fake.
Entropy = Callable[[int], bytes]

#: A cookie is valid in its own period and the next one.
_COOKIE_PERIOD = 30.0
#: Seconds.
_FIRST_RETRY = 0.1
_MAX_RETRY = 0.4

_REQUEST = struct.Struct(f">BQ{NONCE_BYTES}sI")
_ACCEPT = struct.Struct(f">Q{NONCE_BYTES}sI")

#: There is no key yet.
UNKEYED_MAC = Mac()


class DialStep(enum.Enum):
    IGNORED = "nothing"
    SEND_NOW = "send again at once"
    ACCEPTED = "accepted"
    REFUSED = "refused"


@attrs.frozen
class HandshakeRequest:
    version: int
    client: int
    nonce: bytes
    #: Datagrams before the first FEEDBACK.
    room: int
    cookie: bytes


def _decode_request(datagram: bytes) -> HandshakeRequest:
    """Raises `ProtocolError`."""
    contents = contents_of(datagram)
    if len(contents) != _REQUEST.size + COOKIE_BYTES:
        raise ProtocolError(f"a HELLO or OPEN of {len(datagram)} bytes")
    version, client, nonce, room = _REQUEST.unpack_from(contents)
    return HandshakeRequest(version, client, nonce, room, contents[_REQUEST.size :])


class _Cookies:
    def __init__(self, entropy: Entropy) -> None:
        self._secret = entropy(32)

    def create_cookie(self, request: HandshakeRequest, address: Hashable, now: float) -> bytes:
        """Return a COOKIE, shorter than its HELLO against amplification."""
        cookie = self._compute_cookie(request, address, int(now / _COOKIE_PERIOD))
        return UNKEYED_MAC.add_tag(encode_plain(COOKIE, request.client, cookie))

    def verify_cookie(self, request: HandshakeRequest, address: Hashable, now: float) -> bool:
        """Return True if an OPEN returns a recent cookie of its address."""
        period = int(now / _COOKIE_PERIOD)
        return any(
            compare_digest(self._compute_cookie(request, address, each), request.cookie)
            for each in (period, period - 1)
        )

    def _compute_cookie(self, request: HandshakeRequest, address: Hashable, period: int) -> bytes:
        cookie_input = repr((address, request.client, request.nonce, request.room, period)).encode()
        return blake2b(cookie_input, key=self._secret, digest_size=COOKIE_BYTES).digest()


class Acceptor:
    """The listening end. It stores nothing for a dialler."""

    def __init__(self, entropy: Entropy, counts: HandshakeCounts) -> None:
        self._counts = counts
        self._cookies = _Cookies(entropy)

    def receive(
        self, datagram: bytes, address: Hashable, now: float
    ) -> HandshakeRequest | bytes | None:
        """Handle a HELLO or OPEN: return the request of a proven address, or the answer.

        Raises `ProtocolError`.
        """
        request = _decode_request(datagram)
        if request.version != VERSION:
            return self.refuse(request, Reason.VERSION)
        if decode_head(datagram)[0] == HELLO:
            return self._cookies.create_cookie(request, address, now)
        if self._cookies.verify_cookie(request, address, now):
            return request
        self._counts.bad_cookies += 1
        return None

    def refuse(self, request: HandshakeRequest, reason: Reason) -> bytes:
        self._counts.refused += 1
        return UNKEYED_MAC.add_tag(encode_refuse(request.client, reason))


def accept_request(
    request: HandshakeRequest,
    own_id: int,
    entropy: Entropy,
    settings: ArqSettings,
    max_frame: int,
    now: float,
) -> tuple[ConnectionCore, bytes]:
    """Return the connection that a request opens, and its ACCEPT."""
    mac, accept = create_accept(request, own_id, entropy, settings.window)
    core = ConnectionCore(settings, mac, own_id, request.client, request.room, now, max_frame)
    return core, accept


def create_accept(
    request: HandshakeRequest, own_id: int, entropy: Entropy, room: int
) -> tuple[Mac, bytes]:
    """Return the keyed tags of the connection that a request opens, and its ACCEPT."""
    nonce = entropy(NONCE_BYTES)
    mac = Mac(derive_connection_key(request.client, own_id, request.nonce, nonce))
    contents = _ACCEPT.pack(own_id, nonce, room)
    return mac, mac.add_tag(encode_plain(ACCEPT, request.client, contents))


class Dialler:
    """The dialling end until the connection is accepted."""

    def __init__(self, client: int, nonce: bytes, room: int, now: float) -> None:
        self.client = client
        #: Of the other end, after ACCEPTED.
        self.server = 0
        self.room = 0
        self.mac: Mac | None = None
        self.reason = Reason.RESET
        self.retry_at = now
        self._backoff = Backoff(_FIRST_RETRY, _MAX_RETRY, jitter=False)
        self._nonce = nonce
        self._request = _REQUEST.pack(VERSION, client, nonce, room)
        self._cookie = b""

    def next_datagram(self, now: float) -> bytes:
        self.retry_at = now + self._backoff.next_wait(now)
        kind = OPEN if self._cookie else HELLO
        cookie = self._cookie or bytes(COOKIE_BYTES)
        return UNKEYED_MAC.add_tag(encode_plain(kind, 0, self._request + cookie))

    def receive(self, datagram: bytes) -> DialStep:
        kind, _ = decode_head(datagram)
        if kind == ACCEPT:
            return self._receive_accept(datagram)
        if kind not in (COOKIE, REFUSE) or not UNKEYED_MAC.verify(datagram):
            return DialStep.IGNORED
        if kind == REFUSE:
            self.reason = decode_reason(datagram)
            return DialStep.REFUSED
        cookie = contents_of(datagram)
        if len(cookie) != COOKIE_BYTES or cookie == self._cookie:
            return DialStep.IGNORED
        self._cookie = cookie
        self._backoff.report_progress()
        return DialStep.SEND_NOW

    def _receive_accept(self, datagram: bytes) -> DialStep:
        contents = contents_of(datagram)
        if len(contents) != _ACCEPT.size:
            return DialStep.IGNORED
        server, nonce, room = _ACCEPT.unpack(contents)
        mac = Mac(derive_connection_key(self.client, server, self._nonce, nonce))
        if not mac.verify(datagram):
            return DialStep.IGNORED
        self.server, self.room, self.mac = server, room, mac
        return DialStep.ACCEPTED

    def create_connection(
        self, settings: ArqSettings, max_frame: int, now: float
    ) -> ConnectionCore:
        """Return the connection after ACCEPTED."""
        assert self.mac is not None
        ids = (self.client, self.server)
        return ConnectionCore(settings, self.mac, *ids, self.room, now, max_frame)
