"""The handshake of a connection over datagrams (T41).

The listener stores nothing for a dialler until it has proven that it receives at its address, and
has the secret. HELLO is answered by a COOKIE, which OPEN returns, with a tag by the secret. OPEN
and ACCEPT carry public keys for X25519. Then both derive the keys of the link.

Version 1 has no secret and no public keys. It is used with a peer of an earlier version, if
`LinkSecret` allows it.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Hashable
from functools import cached_property
from hashlib import blake2b
from hmac import compare_digest
from typing import Final

import attrs
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from broker.errors import ProtocolError
from broker.transport.arq.connection_core import ConnectionCore
from broker.transport.arq.counters import HandshakeCounts
from broker.transport.arq.link_mac import (
    KEY_BYTES,
    LINK_TAG_BYTES,
    IMac,
    LinkKeys,
    make_link_mac,
    make_request_mac,
)
from broker.transport.arq.mac import Mac, derive_connection_key
from broker.transport.arq.settings import ArqSettings
from broker.transport.arq.wire import (
    ACCEPT,
    COOKIE,
    COOKIE_BYTES,
    HEAD_BYTES,
    HELLO,
    NONCE_BYTES,
    OLD_VERSION,
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
#: Of version 2, with head, public key and tag.
_OPEN_BYTES: Final = HEAD_BYTES + _REQUEST.size + COOKIE_BYTES + KEY_BYTES + LINK_TAG_BYTES

#: Damage is detected, and nothing is authenticated.
UNKEYED_MAC = Mac()


@attrs.frozen
class LinkSecret:
    """The secret that both ends of a connection have."""

    secret: bytes = attrs.field(default=b"", repr=False)
    """Without it, strangers may connect, but not write into the connections of others."""
    allows_old: bool = True
    """True if peers of version 1 are accepted. Their datagrams are not authenticated, and an
    attacker on the path can let both ends use version 1."""


NO_SECRET: Final = LinkSecret()


class DialStep(enum.Enum):
    IGNORED = "nothing"
    SEND_NOW = "send again at once"
    """With the cookie, or as the earlier version."""
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
    public: bytes = b""
    """Key for X25519, in an OPEN of version 2."""


def _decode_request(contents: bytes, *, has_key: bool = False) -> HandshakeRequest:
    """Raises `ProtocolError`."""
    end = _REQUEST.size + COOKIE_BYTES
    if len(contents) != end + has_key * KEY_BYTES:
        raise ProtocolError(f"a HELLO or OPEN with {len(contents)} bytes")
    version, client, nonce, room = _REQUEST.unpack_from(contents)
    cookie, public = contents[_REQUEST.size : end], contents[end:]
    return HandshakeRequest(version, client, nonce, room, cookie, public)


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

    def __init__(
        self, entropy: Entropy, counts: HandshakeCounts, secret: LinkSecret = NO_SECRET
    ) -> None:
        self._counts = counts
        self._cookies = _Cookies(entropy)
        self._secret = secret
        self._request_mac = make_request_mac(secret.secret)

    def receive(
        self, datagram: bytes, address: Hashable, now: float
    ) -> HandshakeRequest | bytes | None:
        """Handle a HELLO or OPEN: return the request of a proven address, or the answer.

        An answer is shorter than its datagram. Raises `ProtocolError`.
        """
        kind, _ = decode_head(datagram)
        if kind == OPEN and len(datagram) == _OPEN_BYTES:
            return self._receive_open(datagram, address, now)
        contents = UNKEYED_MAC.remove_tag(datagram)
        if contents is None:
            raise ProtocolError("a HELLO or OPEN with a wrong tag")
        request = _decode_request(contents_of(contents))
        is_old = request.version == OLD_VERSION and self._secret.allows_old
        if not is_old and (request.version != VERSION or kind == OPEN):
            return self._refuse(request, Reason.VERSION, UNKEYED_MAC)
        if kind == HELLO:
            return self._cookies.create_cookie(request, address, now)
        if self._has_cookie(request, address, now):
            return request
        return None

    def _receive_open(
        self, datagram: bytes, address: Hashable, now: float
    ) -> HandshakeRequest | bytes | None:
        request = _decode_request(contents_of(datagram[:-LINK_TAG_BYTES]), has_key=True)
        if request.version != VERSION:
            return self._refuse(request, Reason.VERSION, UNKEYED_MAC)
        if not self._has_cookie(request, address, now):
            return None
        if self._request_mac.remove_tag(datagram) is None:
            if not self._secret.secret:
                raise ProtocolError("an OPEN with a wrong tag")
            self._counts.wrong_secrets += 1
            return self._refuse(request, Reason.SECRET, UNKEYED_MAC)
        return request

    def _has_cookie(self, request: HandshakeRequest, address: Hashable, now: float) -> bool:
        if self._cookies.verify_cookie(request, address, now):
            return True
        self._counts.bad_cookies += 1
        return False

    def refuse(self, request: HandshakeRequest, reason: Reason) -> bytes:
        is_old = request.version == OLD_VERSION
        return self._refuse(request, reason, UNKEYED_MAC if is_old else self._request_mac)

    def _refuse(self, request: HandshakeRequest, reason: Reason, mac: Mac) -> bytes:
        self._counts.refused += 1
        return mac.add_tag(encode_refuse(request.client, reason))

    def accept(
        self, request: HandshakeRequest, own_id: int, entropy: Entropy, room: int, now: float
    ) -> tuple[IMac, bytes]:
        """Return the tags of the connection that a request opens, and its ACCEPT.

        Raises `ProtocolError` for an unusable public key.
        """
        nonce = entropy(NONCE_BYTES)
        accept = encode_plain(ACCEPT, request.client, _ACCEPT.pack(own_id, nonce, room))
        if request.version == OLD_VERSION:
            self._counts.old_versions += 1
            old_key = derive_connection_key(request.client, own_id, request.nonce, nonce)
            mac = Mac(old_key)
            return mac, mac.add_tag(accept)
        private = X25519PrivateKey.from_private_bytes(entropy(KEY_BYTES))
        accept += private.public_key().public_bytes_raw()
        transcript = _REQUEST.pack(VERSION, request.client, request.nonce, request.room)
        keys = LinkKeys.derive(
            *(private, request.public, self._secret.secret),
            transcript + request.public + contents_of(accept),
        )
        answer = Mac(keys.accept, tag_bytes=LINK_TAG_BYTES).add_tag(accept)
        return make_link_mac(keys, now, is_dialled=False), answer


def accept_request(
    acceptor: Acceptor,
    request: HandshakeRequest,
    own_id: int,
    entropy: Entropy,
    settings: ArqSettings,
    max_frame: int,
    now: float,
) -> tuple[ConnectionCore, bytes]:
    """Return the connection that a request opens, and its ACCEPT. Raises `ProtocolError`."""
    mac, accept = acceptor.accept(request, own_id, entropy, settings.window, now)
    core = ConnectionCore(settings, mac, own_id, request.client, request.room, now, max_frame)
    return core, accept


class Dialler:
    """The dialling end until the connection is accepted."""

    def __init__(
        self,
        client: int,
        entropy: Entropy,
        room: int,
        now: float,
        secret: LinkSecret = NO_SECRET,
    ) -> None:
        self.client = client
        #: Of the other end, after ACCEPTED.
        self.server = 0
        self.room = 0
        self.mac: IMac | None = None
        self.reason = Reason.RESET
        """Of a refusal. With a secret, one without its tag may be forged, and does not count before
        the time for answers is over."""
        self.retry_at = now
        self._backoff = Backoff(_FIRST_RETRY, _MAX_RETRY, jitter=False)
        self._nonce = entropy(NONCE_BYTES)
        self._entropy = entropy
        self._secret = secret
        self._request_mac = make_request_mac(secret.secret)
        self._version = VERSION
        self._room = room
        self._cookie = b""

    def next_datagram(self, now: float) -> bytes:
        self.retry_at = now + self._backoff.next_wait(now)
        kind = OPEN if self._cookie else HELLO
        contents = encode_plain(kind, 0, self._request + (self._cookie or bytes(COOKIE_BYTES)))
        if kind == HELLO or self._version == OLD_VERSION:
            return UNKEYED_MAC.add_tag(contents)
        return self._request_mac.add_tag(contents + self._public)

    @cached_property
    def _private(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(self._entropy(KEY_BYTES))

    @cached_property
    def _public(self) -> bytes:
        return self._private.public_key().public_bytes_raw()

    @property
    def _request(self) -> bytes:
        return _REQUEST.pack(self._version, self.client, self._nonce, self._room)

    def receive(self, datagram: bytes, now: float) -> DialStep:
        kind, _ = decode_head(datagram)
        if kind == ACCEPT:
            return self._receive_accept(datagram, now)
        if kind == REFUSE:
            return self._receive_refusal(datagram)
        contents = UNKEYED_MAC.remove_tag(datagram) if kind == COOKIE else None
        if contents is None:
            return DialStep.IGNORED
        cookie = contents_of(contents)
        if len(cookie) != COOKIE_BYTES or cookie == self._cookie:
            return DialStep.IGNORED
        self._cookie = cookie
        self._backoff.report_progress()
        return DialStep.SEND_NOW

    def _receive_refusal(self, datagram: bytes) -> DialStep:
        contents = self._request_mac.remove_tag(datagram)
        is_proven = contents is not None
        if contents is None:
            contents = UNKEYED_MAC.remove_tag(datagram)
        if contents is None:
            return DialStep.IGNORED
        reason = decode_reason(contents)
        if reason is Reason.VERSION and self._version == VERSION and self._secret.allows_old:
            self._version, self._cookie = OLD_VERSION, b""
            self._backoff.report_progress()
            return DialStep.SEND_NOW
        self.reason = reason
        return DialStep.REFUSED if is_proven or not self._secret.secret else DialStep.IGNORED

    def _receive_accept(self, datagram: bytes, now: float) -> DialStep:
        if not self._cookie:
            return DialStep.IGNORED
        if self._version == OLD_VERSION:
            return self._receive_old_accept(datagram)
        accept = datagram[:-LINK_TAG_BYTES]
        contents = contents_of(accept)
        if len(contents) != _ACCEPT.size + KEY_BYTES:
            return DialStep.IGNORED
        keys = LinkKeys.derive(
            *(self._private, contents[_ACCEPT.size :], self._secret.secret),
            self._request + self._public + contents,
        )
        if Mac(keys.accept, tag_bytes=LINK_TAG_BYTES).remove_tag(datagram) is None:
            return DialStep.IGNORED
        self.server, _, self.room = _ACCEPT.unpack_from(contents)
        self.mac = make_link_mac(keys, now, is_dialled=True)
        return DialStep.ACCEPTED

    def _receive_old_accept(self, datagram: bytes) -> DialStep:
        contents = contents_of(datagram[: -UNKEYED_MAC.overhead])
        if len(contents) != _ACCEPT.size:
            return DialStep.IGNORED
        server, nonce, room = _ACCEPT.unpack(contents)
        mac = Mac(derive_connection_key(self.client, server, self._nonce, nonce))
        if mac.remove_tag(datagram) is None:
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
