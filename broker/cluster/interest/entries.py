"""Wants as entries of tables: an id made of what is wanted, and how it is written."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import msgpack

from broker.cluster.messages import Value
from broker.errors import BadName, BadQuery
from broker.event.stream import StreamPattern
from broker.matching.covering.stream_interest import StreamInterest
from broker.matching.query.query import parse_query

#: The entry that says up to which version the others are known to everybody in the scope.
SETTLED_KEY = ""
#: Two wants have one id with a chance of 2 to the -96.
_ID_BYTES = 12
#: Longer wants are not told, but wider ones, in bytes: 1000 of them fit into a table.
_MAX_BYTES = 3500
#: Wants that are read again without being parsed.
_CACHE_SIZE = 8192


def encode_interest(interest: StreamInterest) -> Value:
    """A want as the value of an entry: pattern, query, namespaces. A long query is `true()`."""
    value = _interest_fields(interest)
    return (
        value if len(msgpack.packb(value)) <= _MAX_BYTES else (interest.pattern.text, "true()", ())
    )


def _interest_fields(interest: StreamInterest) -> Value:
    return (interest.pattern.text, interest.query.text, interest.query.namespaces)


@lru_cache(maxsize=_CACHE_SIZE)
def interest_id(interest: StreamInterest) -> str:
    """The same for equal wants, on all nodes."""
    packed = msgpack.packb(_interest_fields(interest))
    return hashlib.blake2b(packed, digest_size=_ID_BYTES).hexdigest()


@lru_cache(maxsize=_CACHE_SIZE)
def _decode(value: Value) -> tuple[StreamInterest, str]:
    pattern, reason = StreamPattern.parse(">"), ""
    text, namespaces = "true()", {}
    try:
        pattern_text, text, pairs = _check_fields(value)
        namespaces = dict(pairs)
        pattern = StreamPattern.parse(pattern_text)
        return StreamInterest(pattern, parse_query(text, namespaces)), ""
    except (TypeError, ValueError, BadName, BadQuery) as error:
        reason = str(error)
    return StreamInterest(pattern, parse_query("true()")), reason


def _check_fields(value: Any) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    pattern, text, namespaces = value
    pairs = tuple((prefix, uri) for prefix, uri in namespaces)
    if not all(type(each) is str for each in (pattern, text, *sum(pairs, ()))):
        raise TypeError("a want is written in text")
    return pattern, text, pairs


def decode_interest(value: Value) -> tuple[StreamInterest, str]:
    """The want that another node wrote, and what is wrong with it (empty if nothing).

    Never narrower than it can have been meant: a bad query is `true()`, a bad pattern is `>`.
    """
    return _decode(value)
