"""Authentication of the datagrams of one link: keys of its handshake, counters, rotation (T41)."""

from __future__ import annotations

import struct
from hashlib import blake2b
from hmac import compare_digest
from typing import Final, Protocol

import attrs
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from broker.errors import ProtocolError
from broker.transport.arq.mac import Mac

LINK_TAG_BYTES: Final = 16
KEY_BYTES: Final = 32
_COUNTER: Final = struct.Struct(">Q")
_COUNTER_BYTES: Final = 8
_pack_counter: Final = _COUNTER.pack
_unpack_counter: Final = _COUNTER.unpack_from
#: Bits of a counter below its epoch.
_NUMBER_BITS: Final = 40
#: A key is used for so many datagrams, or seconds while there are datagrams.
EPOCH_DATAGRAMS: Final = 2**24
EPOCH_SECONDS: Final = 600.0
#: Datagrams behind the newest one that are accepted, each once.
REPLAY_WINDOW: Final = 2048
#: All datagrams of so many epochs may get lost.
_MOST_AHEAD: Final = 1_024
_PERSON: Final = b"xmlbroker-epoch"
_INFO: Final = b"xmlbroker link 2"


class IMac(Protocol):
    """Tags of the datagrams that one end sends and receives."""

    overhead: int
    """Bytes that a tag adds."""
    replayed: int
    """Datagrams that were dropped since they had come before."""
    binding: bytes
    """Known to both ends of the link only; empty without keys of its own."""

    def add_tag(self, contents: bytes) -> bytes:
        """Return a datagram. Each one is new, so that it may be sent again."""

    def remove_tag(self, datagram: bytes) -> bytes | None:
        """Return the contents, or None for a datagram without a tag by the key, or replayed."""

    def rotate(self, now: float) -> None:
        """Change the key if it is old. `now` is in seconds, and is given from time to time."""


@attrs.frozen(repr=False)
class LinkKeys:
    """The keys of a link, as both ends derive them."""

    accept: bytes
    """Of the listener's proof."""
    from_client: bytes
    from_server: bytes
    binding: bytes
    """Known to both ends of this link only, and to no other link."""

    @classmethod
    def derive(
        cls, private: X25519PrivateKey, other_public: bytes, secret: bytes, transcript: bytes
    ) -> LinkKeys:
        """Derive the keys of a handshake.

        `secret` is that of the network, or empty. `transcript` has the public keys, the nonces and
        ids of both ends. So the keys are new for each link, and are not found from a secret that
        leaks later. Raises `ProtocolError` for an unusable public key.
        """
        try:
            shared = private.exchange(X25519PublicKey.from_public_bytes(other_public))
        except ValueError:
            raise ProtocolError("an unusable public key") from None
        salt = blake2b(secret, digest_size=KEY_BYTES, person=b"xmlbroker-link").digest()
        found = HKDF(SHA256(), 4 * KEY_BYTES, salt, _INFO + transcript).derive(shared)
        return cls(*(found[at : at + KEY_BYTES] for at in range(0, 4 * KEY_BYTES, KEY_BYTES)))


class _Epoch:
    """The key of one epoch, and the datagrams that have come."""

    def __init__(self, key: bytes, number: int) -> None:
        self.number = number
        derived = blake2b(
            _pack_counter(number), key=key, digest_size=KEY_BYTES, person=_PERSON
        ).digest()
        self.keyed_state = blake2b(key=derived, digest_size=LINK_TAG_BYTES, person=_PERSON)
        self._newest = (number << _NUMBER_BITS) - 1
        self._seen = 0
        """A bit for each of the last counters; the lowest is that of the newest one."""

    def note(self, counter: int) -> bool:
        """Note the counter of a valid datagram; return False if it had come, or may have."""
        ahead = counter - self._newest
        if ahead > 0:
            self._newest = counter
            # A far counter must not make a large number.
            self._seen = (self._seen << ahead | 1) & _MASK if ahead < REPLAY_WINDOW else 1
            return True
        if ahead <= -REPLAY_WINDOW or self._seen >> -ahead & 1:
            return False
        self._seen |= 1 << -ahead
        return True


_MASK: Final = 2**REPLAY_WINDOW - 1


class LinkMac:
    """Tags of one link: keyed BLAKE2b over contents and a counter, truncated to 128 bits.

    Each direction has a key of its own, so that no datagram can be returned to its sender. The
    counter begins with the epoch of the key. A receiver derives the key of a later epoch when its
    first valid datagram comes, and accepts late ones of the epoch before.
    """

    overhead = _COUNTER_BYTES + LINK_TAG_BYTES

    def __init__(self, sending: bytes, receiving: bytes, now: float, binding: bytes = b"") -> None:
        self.binding = binding
        self.replayed = 0
        self._sending_key = sending
        self._receiving_key = receiving
        self._sending = _Epoch(sending, 0)
        self._receiving = _Epoch(receiving, 0)
        self._earlier: _Epoch | None = None
        self._next = 0
        self._next_epoch_at = EPOCH_DATAGRAMS
        self._began_at: float | None = now
        """None if the epoch has begun since the last `rotate`."""

    @property
    def epochs(self) -> tuple[int, int]:
        """Numbers of the keys for sending and receiving."""
        return self._sending.number, self._receiving.number

    def add_tag(self, contents: bytes) -> bytes:
        if self._next >= self._next_epoch_at:
            self._begin_epoch()
            self._began_at = None
        signed = contents + _pack_counter(self._next)
        self._next += 1
        state = self._sending.keyed_state.copy()
        state.update(signed)
        return signed + state.digest()

    def remove_tag(self, datagram: bytes) -> bytes | None:
        end = len(datagram) - LINK_TAG_BYTES
        if end < _COUNTER_BYTES:
            return None
        signed = datagram[:end]
        (counter,) = _unpack_counter(signed, end - _COUNTER_BYTES)
        epoch = self._receiving
        if counter >> _NUMBER_BITS != epoch.number:
            found = self._find_epoch(counter >> _NUMBER_BITS)
            if found is None:
                return None
            epoch = found
        state = epoch.keyed_state.copy()
        state.update(signed)
        if not compare_digest(state.digest(), datagram[end:]):
            return None
        if not epoch.note(counter):
            self.replayed += 1
            return None
        if epoch.number > self._receiving.number:
            self._earlier, self._receiving = self._receiving, epoch
        return signed[:-_COUNTER_BYTES]

    def rotate(self, now: float) -> None:
        if self._began_at is None:
            # Two epochs that end together would make late datagrams invalid.
            self._began_at = now
        elif now >= self._began_at + EPOCH_SECONDS:
            self._began_at = now
            if self._next & (1 << _NUMBER_BITS) - 1:
                self._begin_epoch()

    def _begin_epoch(self) -> None:
        self._sending = _Epoch(self._sending_key, self._sending.number + 1)
        self._next = self._sending.number << _NUMBER_BITS
        self._next_epoch_at = self._next + EPOCH_DATAGRAMS

    def _find_epoch(self, number: int) -> _Epoch | None:
        if self._earlier is not None and number == self._earlier.number:
            return self._earlier
        if 0 < number - self._receiving.number <= _MOST_AHEAD:
            return _Epoch(self._receiving_key, number)
        return None


def make_link_mac(keys: LinkKeys, now: float, *, is_dialled: bool) -> LinkMac:
    """Return the tags of one end of a link."""
    if is_dialled:
        return LinkMac(keys.from_client, keys.from_server, now, keys.binding)
    return LinkMac(keys.from_server, keys.from_client, now, keys.binding)


def make_request_mac(secret: bytes) -> Mac:
    """Return the tags of requests and refusals by the secret of a network, or by none."""
    if not secret:
        return Mac(tag_bytes=LINK_TAG_BYTES)
    key = blake2b(secret, digest_size=KEY_BYTES, person=b"xmlbroker-open").digest()
    return Mac(key, tag_bytes=LINK_TAG_BYTES)
