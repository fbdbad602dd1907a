"""JSON as XML by the mapping of XPath 3.1 (`fn:json-to-xml`), and back (`fn:xml-to-json`).

Numbers keep their digits, and objects the order of their keys. A string with a character that XML
does not allow has the attribute `escaped`: JSON escapes stand for it and other special characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NoReturn, TypeAlias

import attrs
from lxml import etree

from broker.printable import escape_in_json

NAMESPACE: Final = "http://www.w3.org/2005/xpath-functions"
TYPE: Final = ("json", "1.0")
#: Values inside each other. libxml2 reads 256 elements, of which the envelope takes one.
MAX_DEPTH: Final = 200
#: Bytes of a JSON text.
MAX_JSON: Final = 16 << 20

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: The characters that XPath 3.1 calls special (section 17.5.1).
_SPECIAL = re.compile("[\x00-\x1f\x7f-\x9f\\\\\ud800-\udfff\ufffe\uffff]")
_SHORT_ESCAPES: Final = {
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\\": "\\\\",
}
_MARKUP = re.compile("[&<>\r]")
_MARKUP_IN_ATTRIBUTE = re.compile('[&<>\r\n\t"]')
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_BLANKS: Final = " \t\r\n"
_BOOLEANS: Final = {"true": "true", "1": "true", "false": "false", "0": "false"}


class NotMapped(Exception):
    """A text is no JSON, or an element is no result of the mapping.

    `line` counts from 1. `is_cut`: the text is the beginning of JSON.
    """

    def __init__(self, reason: str, line: int = 1, *, is_cut: bool = False) -> None:
        super().__init__(reason)
        self.line = line
        self.is_cut = is_cut


@attrs.frozen
class JsonNumber:
    text: str


@attrs.frozen
class JsonObject:
    members: tuple[tuple[str, JsonValue], ...]
    """Keys are distinct."""

    def find(self, key: str) -> JsonValue:
        return next((value for name, value in self.members if name == key), None)


JsonValue: TypeAlias = "JsonObject | list[JsonValue] | str | JsonNumber | bool | None"


# --------------------------------------------------------------------------- JSON texts


def parse_json(text: str) -> Iterator[tuple[JsonValue, int]]:
    """Yield the values of one or several JSON texts, each with its line.

    Raises `NotMapped`, also for a key that an object has twice.
    """
    at = _skip_blanks(text, 0)
    while at < len(text):
        line = text.count("\n", 0, at) + 1
        try:
            value, at = _DECODER.raw_decode(text, at)
        except json.JSONDecodeError as error:
            reason = f"not JSON: {error.msg} (column {error.colno})"
            is_cut = error.pos >= len(text.rstrip(_BLANKS))
            raise NotMapped(reason, error.lineno, is_cut=is_cut) from None
        except RecursionError:
            raise _too_deep() from None
        yield value, line
        at = _skip_blanks(text, at)


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _make_object(members: list[tuple[str, JsonValue]]) -> JsonObject:
    seen: set[str] = set()
    for key, _ in members:
        if key in seen:
            raise NotMapped(f"an object has the key {key[:80]!r} twice")
        seen.add(key)
    return JsonObject(tuple(members))


def _refuse_constant(text: str) -> NoReturn:
    raise NotMapped(f"not JSON: {text} is no number of JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_make_object,
    parse_float=JsonNumber,
    parse_int=JsonNumber,
    parse_constant=_refuse_constant,
)


def _too_deep() -> NotMapped:
    return NotMapped(f"more than {MAX_DEPTH} values are inside each other")


# --------------------------------------------------------------------------- to XML


def json_to_xml(value: JsonValue) -> bytes:
    """Return the element of a value, in UTF-8. Raises `NotMapped` for a value that is too deep."""
    parts: list[str] = []
    _write(parts, value, f' xmlns="{NAMESPACE}"', 1)
    return "".join(parts).encode()


def _write(parts: list[str], value: JsonValue, attributes: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _too_deep()
    match value:
        case None:
            parts.append(f"<null{attributes}/>")
        case bool():
            parts.append(f"<boolean{attributes}>{str(value).lower()}</boolean>")
        case JsonNumber(text=text):
            parts.append(f"<number{attributes}>{text}</number>")
        case str():
            text, is_escaped = _escape(value)
            mark = ' escaped="true"' if is_escaped else ""
            parts.append(f"<string{attributes}{mark}>{_MARKUP.sub(_reference, text)}</string>")
        case list():
            parts.append(f"<array{attributes}>")
            for each in value:
                _write(parts, each, "", depth + 1)
            parts.append("</array>")
        case JsonObject(members=members):
            parts.append(f"<map{attributes}>")
            for key, each in members:
                _write(parts, each, _key_attributes(key), depth + 1)
            parts.append("</map>")


def _key_attributes(key: str) -> str:
    text, is_escaped = _escape(key)
    mark = ' escaped-key="true"' if is_escaped else ""
    return f' key="{_MARKUP_IN_ATTRIBUTE.sub(_reference, text)}"{mark}'


def _escape(text: str) -> tuple[str, bool]:
    if _NOT_XML.search(text) is None:
        return text, False
    return _SPECIAL.sub(_escape_character, text), True


def _escape_character(found: re.Match[str]) -> str:
    return _SHORT_ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04X}"


def _reference(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};" if found[0] in "\r\n\t" else _NAMED[found[0]]


_NAMED: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


# --------------------------------------------------------------------------- to JSON


def is_json_payload(root: etree._Element) -> bool:
    return str(root.tag).startswith(f"{{{NAMESPACE}}}")


def xml_to_json(root: etree._Element) -> str:
    """Return one line of JSON. Raises `NotMapped` if the element is no result of the mapping."""
    parts: list[str] = []
    _read(parts, root, 1)
    return escape_in_json("".join(parts))


def _read(parts: list[str], element: etree._Element, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _too_deep()
    kind = str(element.tag).removeprefix(f"{{{NAMESPACE}}}")
    # Comments and processing instructions do not count.
    text = "".join((element.text or "", *(child.tail or "" for child in element)))
    children = list(element.iterchildren("*"))
    if kind in ("map", "array"):
        if text.strip(_BLANKS):
            raise _unmapped(element, "has text")
        _read_children(parts, children, depth, is_map=kind == "map")
        return
    if kind not in ("string", "number", "boolean", "null"):
        raise _unmapped(element, "is no element of the mapping from JSON")
    if children:
        raise _unmapped(element, "has an element inside")
    match kind:
        case "string":
            parts.append(_quote(_unescape(element, "escaped", text)))
        case "number" if _NUMBER.fullmatch(text.strip(_BLANKS)):
            parts.append(text.strip(_BLANKS))
        case "boolean" if text.strip(_BLANKS) in _BOOLEANS:
            parts.append(_BOOLEANS[text.strip(_BLANKS)])
        case "null" if not text.strip(_BLANKS):
            parts.append("null")
        case _:
            raise _unmapped(element, f"can not be {text[:40]!r}")


def _read_children(
    parts: list[str], children: list[etree._Element], depth: int, *, is_map: bool
) -> None:
    keys: set[str] = set()
    parts.append("{" if is_map else "[")
    for number, child in enumerate(children):
        parts.append("," if number else "")
        if is_map:
            written = child.get("key")
            if written is None:
                raise _unmapped(child, "has no key")
            key = _unescape(child, "escaped-key", written)
            if key in keys:
                raise _unmapped(child, f"has the key {key[:80]!r} of another one")
            keys.add(key)
            parts.append(f"{_quote(key)}:")
        _read(parts, child, depth + 1)
    parts.append("}" if is_map else "]")


def _unescape(element: etree._Element, mark: str, text: str) -> str:
    if _BOOLEANS.get(element.get(mark, "false").strip(_BLANKS)) != "true":
        return text
    if "\\" in _ESCAPE.sub("", text):
        raise _unmapped(element, "has an escape that JSON does not know")
    # What is not escaped there may need it here.
    parts = [
        each if _ESCAPE.fullmatch(each) else json.dumps(each)[1:-1]
        for each in re.split(rf"({_ESCAPE.pattern})", text)
    ]
    unescaped: str = json.loads(f'"{"".join(parts)}"')
    return unescaped


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _unmapped(element: etree._Element, problem: str) -> NotMapped:
    name = str(element.tag).removeprefix(f"{{{NAMESPACE}}}")[:80]
    line = element.sourceline
    return NotMapped(f"<{name}> {problem}", line if isinstance(line, int) else 1)
