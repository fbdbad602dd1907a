"""Wants as entries of tables: an id made of what is wanted, and how it is written."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import msgpack

from broker.cluster.messages import Value
from broker.errors import BadName, BadQuery
from broker.event.stream import StreamPattern
from broker.matching.covering.stream_interest import Want
from broker.matching.query.query import parse_query

#: The entry that says up to which version the others are known to everybody in the scope.
SETTLED = ""
#: Two wants have one id with a chance of 2 to the -96.
_ID_BYTES = 12
#: Longer wants are not told, but wider ones, in bytes: 1000 of them fit into a table.
_LONGEST = 3500
#: Wants that are read again without being parsed.
_REMEMBERED = 8192


def written(want: Want) -> Value:
    """A want as the value of an entry: pattern, query, namespaces. A long query is `true()`."""
    value = _written(want)
    return value if len(msgpack.packb(value)) <= _LONGEST else (want.pattern.text, "true()", ())


def _written(want: Want) -> Value:
    return (want.pattern.text, want.query.text, want.query.namespaces)


@lru_cache(maxsize=_REMEMBERED)
def want_id(want: Want) -> str:
    """The same for equal wants, on all nodes."""
    packed = msgpack.packb(_written(want))
    return hashlib.blake2b(packed, digest_size=_ID_BYTES).hexdigest()


@lru_cache(maxsize=_REMEMBERED)
def _read(value: Value) -> tuple[Want, str]:
    pattern, why = StreamPattern.parse(">"), ""
    text, namespaces = "true()", {}
    try:
        pattern_text, text, pairs = _fields(value)
        namespaces = dict(pairs)
        pattern = StreamPattern.parse(pattern_text)
        return Want(pattern, parse_query(text, namespaces)), ""
    except (TypeError, ValueError, BadName, BadQuery) as error:
        why = str(error)
    return Want(pattern, parse_query("true()")), why


def _fields(value: Any) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    pattern, text, namespaces = value
    pairs = tuple((prefix, uri) for prefix, uri in namespaces)
    if not all(type(each) is str for each in (pattern, text, *sum(pairs, ()))):
        raise TypeError("a want is written in text")
    return pattern, text, pairs


def read(value: Value) -> tuple[Want, str]:
    """The want that another node wrote, and what is wrong with it (empty if nothing).

    Never narrower than it can have been meant: a bad query is `true()`, a bad pattern is `>`.
    """
    return _read(value)
