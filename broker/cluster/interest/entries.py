"""Interest as entries of tables: a content-based id, and the encoded value."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final, TypeAlias

from broker.cluster.messages import Value
from broker.errors import BadName, BadQuery, ProtocolError
from broker.event.stream import StreamPattern
from broker.matching.covering.stream_interest import StreamInterest
from broker.matching.query.query import parse_query
from broker.wire.codec import Schema, pack

SETTLED_KEY = ""
#: Two ids collide with a probability of 2 to the -96.
_ID_BYTES = 12
#: Bytes; longer interest is widened: 1000 of this size fit into a table.
_MAX_BYTES = 3500
_CACHE_SIZE = 8192
#: Pattern, query, namespaces.
_Interest: TypeAlias = tuple[str, str, tuple[tuple[str, str], ...]]
_INTEREST: Final = Schema[_Interest](_Interest, "interest")


def encode_interest(interest: StreamInterest) -> Value:
    """A long query becomes `true()`."""
    value = _interest_fields(interest)
    return value if len(pack(value)) <= _MAX_BYTES else (interest.pattern.text, "true()", ())


def _interest_fields(interest: StreamInterest) -> Value:
    return (interest.pattern.text, interest.query.text, interest.query.namespaces)


@lru_cache(maxsize=_CACHE_SIZE)
def interest_id(interest: StreamInterest) -> str:
    packed = pack(_interest_fields(interest))
    return hashlib.blake2b(packed, digest_size=_ID_BYTES).hexdigest()


@lru_cache(maxsize=_CACHE_SIZE)
def _decode(value: Value) -> tuple[StreamInterest, str]:
    pattern, reason = StreamPattern.parse(">"), ""
    text, namespaces = "true()", {}
    try:
        pattern_text, text, pairs = _INTEREST.convert(value)
        namespaces = dict(pairs)
        pattern = StreamPattern.parse(pattern_text)
        return StreamInterest(pattern, parse_query(text, namespaces)), ""
    except (ProtocolError, BadName, BadQuery) as error:
        reason = str(error)
    return StreamInterest(pattern, parse_query("true()")), reason


def decode_interest(value: Value) -> tuple[StreamInterest, str]:
    """Return the interest in another node's entry, and an error text.

    It is never narrower than intended: a bad query becomes `true()`, a bad pattern `>`.
    """
    return _decode(value)
