"""How a connection over datagrams begins (T41).

Who dials proves that it receives at its address before anything is kept for it:
HELLO asks, COOKIE answers with what only the listener can have made for that address and that
HELLO, OPEN shows it, ACCEPT gives the connection's other id and nonce. Then both know the key.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Hashable
from hashlib import blake2b
from hmac import compare_digest

import attrs

from broker.errors import ProtocolError
from broker.transport.arq.mac import Mac, derive_connection_key
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
)

#: `Entropy(n)` gives n bytes that nobody can guess: `secrets.token_bytes`, or a seeded fake.
Entropy = Callable[[int], bytes]

#: Seconds for which a cookie is good: for the spell in which it was made, and the next one.
_COOKIE_PERIOD = 30.0
#: Seconds until a HELLO or OPEN without an answer is sent again: at first, and at most.
_FIRST_RETRY = 0.1
_MAX_RETRY = 0.4

_REQUEST = struct.Struct(f">BQ{NONCE_BYTES}sI")
_ACCEPT = struct.Struct(f">Q{NONCE_BYTES}sI")

#: The seal of the handshake itself: there is no key yet.
UNKEYED_MAC = Mac()


class DialStep(enum.Enum):
    """What a datagram meant to a dialler."""

    IGNORED = "nothing"
    SEND_NOW = "send again at once"
    ACCEPTED = "accepted"
    REFUSED = "refused"


@attrs.frozen
class HandshakeRequest:
    """What a HELLO or an OPEN says."""

    version: int
    client: int
    nonce: bytes
    #: Datagrams that the dialler takes before it has said more.
    room: int
    cookie: bytes


def decode_request(datagram: bytes) -> HandshakeRequest:
    """A HELLO or OPEN whose tag holds. Raises `ProtocolError`."""
    contents = contents_of(datagram)
    if len(contents) != _REQUEST.size + COOKIE_BYTES:
        raise ProtocolError(f"a greeting of {len(datagram)} bytes")
    version, client, nonce, room = _REQUEST.unpack_from(contents)
    return HandshakeRequest(version, client, nonce, room, contents[_REQUEST.size :])


def encode_accept(client: int, server: int, nonce: bytes, room: int, seal: Mac) -> bytes:
    """An ACCEPT."""
    return seal.add_tag(encode_plain(ACCEPT, client, _ACCEPT.pack(server, nonce, room)))


class Cookies:
    """What a listener asks a dialler to bring back; it keeps nothing for each."""

    def __init__(self, entropy: Entropy) -> None:
        self._secret = entropy(32)

    def create_cookie(self, greeting: HandshakeRequest, address: Hashable, now: float) -> bytes:
        """A COOKIE for a HELLO: shorter than that, so nobody's traffic is multiplied."""
        cookie = self._compute_cookie(greeting, address, int(now / _COOKIE_PERIOD))
        return UNKEYED_MAC.add_tag(encode_plain(COOKIE, greeting.client, cookie))

    def verify_cookie(self, greeting: HandshakeRequest, address: Hashable, now: float) -> bool:
        """Whether an OPEN brings the cookie that was sent to its address not long ago."""
        spell = int(now / _COOKIE_PERIOD)
        return any(
            compare_digest(self._compute_cookie(greeting, address, each), greeting.cookie)
            for each in (spell, spell - 1)
        )

    def _compute_cookie(self, greeting: HandshakeRequest, address: Hashable, spell: int) -> bytes:
        said = repr((address, greeting.client, greeting.nonce, greeting.room, spell)).encode()
        return blake2b(said, key=self._secret, digest_size=COOKIE_BYTES).digest()


class Dialler:
    """The dialling end until the connection is there. Sans-I/O."""

    def __init__(self, client: int, nonce: bytes, room: int, now: float) -> None:
        self.client = client
        #: After ACCEPTED: the other end's id, its room, and the connection's seal.
        self.server = 0
        self.room = 0
        self.mac: Mac | None = None
        #: After REFUSED.
        self.reason = Reason.RESET
        #: When to send again.
        self.retry_at = now
        self._wait = _FIRST_RETRY
        self._nonce = nonce
        self._request = _REQUEST.pack(VERSION, client, nonce, room)
        self._cookie = b""

    def next_datagram(self, now: float) -> bytes:
        """What to send now."""
        self.retry_at = now + self._wait
        self._wait = min(2 * self._wait, _MAX_RETRY)
        kind = OPEN if self._cookie else HELLO
        cookie = self._cookie or bytes(COOKIE_BYTES)
        return UNKEYED_MAC.add_tag(encode_plain(kind, 0, self._request + cookie))

    def receive(self, datagram: bytes) -> DialStep:
        """What a datagram with our id, of the address that we dial, means."""
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
        self._wait = _FIRST_RETRY
        return DialStep.SEND_NOW

    def _receive_accept(self, datagram: bytes) -> DialStep:
        contents = contents_of(datagram)
        if len(contents) != _ACCEPT.size:
            return DialStep.IGNORED
        server, nonce, room = _ACCEPT.unpack(contents)
        seal = Mac(derive_connection_key(self.client, server, self._nonce, nonce))
        if not seal.verify(datagram):
            return DialStep.IGNORED
        self.server, self.room, self.mac = server, room, seal
        return DialStep.ACCEPTED
