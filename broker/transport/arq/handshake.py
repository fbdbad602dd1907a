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
from broker.transport.arq.mac import Seal, connection_key
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
    body,
    head,
    plain,
    read_reason,
)

#: `Entropy(n)` gives n bytes that nobody can guess: `secrets.token_bytes`, or a seeded fake.
Entropy = Callable[[int], bytes]

#: Seconds for which a cookie is good: for the spell in which it was made, and the next one.
_SPELL = 30.0
#: Seconds until a HELLO or OPEN without an answer is sent again: at first, and at most.
_AGAIN = 0.1
_MOST_AGAIN = 0.4

_GREETING = struct.Struct(f">BQ{NONCE_BYTES}sI")
_ACCEPT = struct.Struct(f">Q{NONCE_BYTES}sI")

#: The seal of the handshake itself: there is no key yet.
OPEN_SEAL = Seal()


class Answer(enum.Enum):
    """What a datagram meant to a dialler."""

    NOTHING = "nothing"
    NEXT = "send again at once"
    ACCEPTED = "accepted"
    REFUSED = "refused"


@attrs.frozen
class Greeting:
    """What a HELLO or an OPEN says."""

    version: int
    client: int
    nonce: bytes
    #: Datagrams that the dialler takes before it has said more.
    room: int
    cookie: bytes


def read_greeting(datagram: bytes) -> Greeting:
    """A HELLO or OPEN whose tag holds. Raises `ProtocolError`."""
    contents = body(datagram)
    if len(contents) != _GREETING.size + COOKIE_BYTES:
        raise ProtocolError(f"a greeting of {len(datagram)} bytes")
    version, client, nonce, room = _GREETING.unpack_from(contents)
    return Greeting(version, client, nonce, room, contents[_GREETING.size :])


def accepted(client: int, server: int, nonce: bytes, room: int, seal: Seal) -> bytes:
    """An ACCEPT."""
    return seal.sealed(plain(ACCEPT, client, _ACCEPT.pack(server, nonce, room)))


class Cookies:
    """What a listener asks a dialler to bring back; it keeps nothing for each."""

    def __init__(self, entropy: Entropy) -> None:
        self._secret = entropy(32)

    def answer(self, greeting: Greeting, address: Hashable, now: float) -> bytes:
        """A COOKIE for a HELLO: shorter than that, so nobody's traffic is multiplied."""
        cookie = self._cookie(greeting, address, int(now / _SPELL))
        return OPEN_SEAL.sealed(plain(COOKIE, greeting.client, cookie))

    def proves(self, greeting: Greeting, address: Hashable, now: float) -> bool:
        """Whether an OPEN brings the cookie that was sent to its address not long ago."""
        spell = int(now / _SPELL)
        return any(
            compare_digest(self._cookie(greeting, address, each), greeting.cookie)
            for each in (spell, spell - 1)
        )

    def _cookie(self, greeting: Greeting, address: Hashable, spell: int) -> bytes:
        said = repr((address, greeting.client, greeting.nonce, greeting.room, spell)).encode()
        return blake2b(said, key=self._secret, digest_size=COOKIE_BYTES).digest()


class Dialler:
    """The dialling end until the connection is there. Sans-I/O."""

    def __init__(self, client: int, nonce: bytes, room: int, now: float) -> None:
        self.client = client
        #: After ACCEPTED: the other end's id, its room, and the connection's seal.
        self.server = 0
        self.room = 0
        self.seal: Seal | None = None
        #: After REFUSED.
        self.reason = Reason.RESET
        #: When to send again.
        self.again_at = now
        self._wait = _AGAIN
        self._nonce = nonce
        self._greeting = _GREETING.pack(VERSION, client, nonce, room)
        self._cookie = b""

    def datagram(self, now: float) -> bytes:
        """What to send now."""
        self.again_at = now + self._wait
        self._wait = min(2 * self._wait, _MOST_AGAIN)
        kind = OPEN if self._cookie else HELLO
        cookie = self._cookie or bytes(COOKIE_BYTES)
        return OPEN_SEAL.sealed(plain(kind, 0, self._greeting + cookie))

    def received(self, datagram: bytes) -> Answer:
        """What a datagram with our id, of the address that we dial, means."""
        kind, _ = head(datagram)
        if kind == ACCEPT:
            return self._accepted(datagram)
        if kind not in (COOKIE, REFUSE) or not OPEN_SEAL.holds(datagram):
            return Answer.NOTHING
        if kind == REFUSE:
            self.reason = read_reason(datagram)
            return Answer.REFUSED
        cookie = body(datagram)
        if len(cookie) != COOKIE_BYTES or cookie == self._cookie:
            return Answer.NOTHING
        self._cookie = cookie
        self._wait = _AGAIN
        return Answer.NEXT

    def _accepted(self, datagram: bytes) -> Answer:
        contents = body(datagram)
        if len(contents) != _ACCEPT.size:
            return Answer.NOTHING
        server, nonce, room = _ACCEPT.unpack(contents)
        seal = Seal(connection_key(self.client, server, self._nonce, nonce))
        if not seal.holds(datagram):
            return Answer.NOTHING
        self.server, self.room, self.seal = server, room, seal
        return Answer.ACCEPTED
