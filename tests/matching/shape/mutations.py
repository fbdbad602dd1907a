"""Small mutations of documents, which an incorrect cache could miss."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

_SIGNS = (
    *(b"<", b">", b"&", b'"', b"'", b"/", b"=", b"]]>", b"]]", b"<!--", b"-->", b"<?", b"?>"),
    *(b"\x00", b"\x01", b"\x0b", b"\x1f", b"\x7f", b"\x80", b"\xff", b"\xc3", b"\xed\xa0\x80"),
    *(b"\xef\xbf\xbe", b"\xef\xbf\xbf", b"\xef\xbb\xbf", b"\xc2\x85", b"\xe2\x80\xa8", b"\xc3\xa9"),
    *(b"\xf4\x90\x80\x80", b"\xc0\xbc", b"\t", b"\n", b"\r", b"\r\n", b" ", b"", b"0", b"%", b"x"),
    *(b"&amp;", b"&lt;", b"&#0;", b"&#x41;", b"&foo;", b"<x/>", b"<![CDATA[", b"<e1>", b"</e1>"),
    *(b'" x="', b'" must="', b'"/><e1 a="', b"></", b"<e1", b"<!DOCTYPE x>"),
)
_TAG = re.compile(rb"<[^>]*>")
_VALUE = re.compile(rb'(?<=")[^"<>]*(?=")|(?<=>)[^<>]*(?=<)')
_ATTRIBUTE = re.compile(rb'\s[\w:]+="[^"]*"')

Documents = Sequence[bytes]


def mutate(chance: random.Random, document: bytes, others: Documents) -> bytes:
    """Return the document with one to three changes."""
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        document = chance.choice(_CHANGES)(chance, document, others)
    return document


def _place(chance: random.Random, document: bytes) -> int:
    return chance.randrange(len(document) + 1)


def _span(chance: random.Random, document: bytes, what: re.Pattern[bytes]) -> tuple[int, int]:
    found = list(what.finditer(document))
    return chance.choice(found).span() if found else (0, 0)


def _insert(chance: random.Random, document: bytes, _: Documents) -> bytes:
    at = _place(chance, document)
    return document[:at] + chance.choice(_SIGNS) + document[at:]


def _insert_in_value(chance: random.Random, document: bytes, _: Documents) -> bytes:
    start, end = _span(chance, document, _VALUE)
    at = chance.randint(start, end)
    return document[:at] + chance.choice(_SIGNS) + document[at:]


def _set_value(chance: random.Random, document: bytes, _: Documents) -> bytes:
    start, end = _span(chance, document, _VALUE)
    return document[:start] + chance.choice(_SIGNS) + document[end:]


def _replace(chance: random.Random, document: bytes, _: Documents) -> bytes:
    at = _place(chance, document)
    return document[:at] + bytes([chance.randrange(256)]) + document[at + 1 :]


def _delete(chance: random.Random, document: bytes, _: Documents) -> bytes:
    at = _place(chance, document)
    return document[:at] + document[at + chance.choice([1, 1, 2, 5, 30]) :]


def _double(chance: random.Random, document: bytes, _: Documents) -> bytes:
    start, end = _span(chance, document, chance.choice([_TAG, _ATTRIBUTE, _VALUE]))
    return document[:end] + document[start:end] + document[end:]


def _drop(chance: random.Random, document: bytes, _: Documents) -> bytes:
    start, end = _span(chance, document, chance.choice([_TAG, _ATTRIBUTE, _VALUE]))
    return document[:start] + document[end:]


def _swap(chance: random.Random, document: bytes, _: Documents) -> bytes:
    what = chance.choice([_TAG, _ATTRIBUTE, _VALUE])
    (a, b), (c, d) = sorted(_span(chance, document, what) for _ in range(2))
    if b > c:
        return document
    return document[:a] + document[c:d] + document[b:c] + document[a:b] + document[d:]


def _graft(chance: random.Random, document: bytes, others: Documents) -> bytes:
    other = chance.choice(others)
    start, end = _span(chance, document, chance.choice([_TAG, _VALUE]))
    low, high = _span(chance, other, chance.choice([_TAG, _VALUE]))
    return document[:start] + other[low:high] + document[end:]


def _cross(chance: random.Random, document: bytes, others: Documents) -> bytes:
    other = chance.choice(others)
    at = chance.randrange(min(len(document), len(other)) + 1)
    return document[:at] + other[at:]


def _cut_short(chance: random.Random, document: bytes, _: Documents) -> bytes:
    return document[: _place(chance, document)] if chance.random() < 0.5 else document + b" x"


_CHANGES: tuple[Callable[[random.Random, bytes, Documents], bytes], ...] = (
    *(_insert, _insert_in_value, _insert_in_value, _set_value, _set_value, _replace, _delete),
    *(_double, _drop, _swap, _graft, _cross, _cut_short),
)
