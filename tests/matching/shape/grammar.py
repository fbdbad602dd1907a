"""Random small event types, with documents that differ in structure or only in values."""

from __future__ import annotations

import random
from xml.sax.saxutils import escape, quoteattr

from broker.dtd.dtd import Dtd
from broker.event.envelope import Bundle, EventLinkage, EventType, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.writer import write_event
from tests.matching.conftest import load_dtd

_HEAD = """
<!ENTITY % Mspaces.content ", e0?">
<!ENTITY % Mspaces.envelope
         PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">
%Mspaces.envelope;
"""
_ATTRIBUTES = (
    "free CDATA #IMPLIED",
    "must CDATA #REQUIRED",
    "given CDATA 'dflt &amp; more'",
    "fixed CDATA #FIXED 'f'",
    "choice (a | b | c) 'b'",
    "token NMTOKEN #IMPLIED",
    "p:free CDATA #IMPLIED",
    "p:given CDATA 'x'",
    "xml:lang CDATA #IMPLIED",
)
_TEXTS = (
    *("", " ", "  \n", "a", "291", "-1.5e3", "a b", "t\tt", "don't", "]]", "%", "%b%%", "="),
    *("é", "\u0085", "\u2028", "\ufffd", "\x7f", "\U0001f680", "a&b", "x<y"),
)
#: Legal content of XML that excludes a shape.
_RAW = ("a>b", 'a"b', "<!--c-->", "<?pi x?>", "<![CDATA[<x>]]>", "a\r\nb", "&#65;")


class Grammar:
    """A random DTD. The element `e0` is the payload."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        count = chance.randint(2, 6)
        self.models: list[tuple[str, list[int]]] = []
        self.attributes: list[list[str]] = []
        declarations = [_HEAD]
        for number in range(count):
            later = [n for n in range(number + 1, count) if chance.random() < 0.7]
            kind = chance.choice(["leaf", "leaf", "mixed", "any", "some", "some", "empty"])
            if number == 0:
                kind = "some"
            if not later and kind in ("mixed", "some"):
                kind = "leaf"
            names = "|".join(_name(n) for n in later)
            declarations.append(
                f"<!ELEMENT {_name(number)} "
                + {
                    "leaf": "(#PCDATA)",
                    "mixed": f"(#PCDATA|{names})*",
                    "any": "ANY",
                    "some": f"({names})*",
                    "empty": "EMPTY",
                }[kind]
                + ">"
            )
            attributes = [each for each in _ATTRIBUTES if chance.random() < 0.4]
            if attributes:
                declarations.append(f"<!ATTLIST {_name(number)} {' '.join(attributes)}>")
            self.models.append((kind, later))
            self.attributes.append([each.split()[0] for each in attributes])
        # Only the payload declares the prefix. The DTD fixes its namespace.
        declarations.append("<!ATTLIST e0 xmlns:p CDATA #FIXED 'urn:p' id ID #IMPLIED>")
        self.dtd: Dtd = load_dtd("made", "1.0", "\n".join(declarations).encode())

    def document(self, structure: int, values: int, *, raw: bool = False) -> bytes:
        """Return a document. Equal `structure` usually gives equal tags; `raw` allows content
        without shape."""
        writer = _Writer(self, random.Random(structure), random.Random(values), raw)
        return writer.event()


class _Writer:
    def __init__(
        self, grammar: Grammar, shape: random.Random, values: random.Random, raw: bool
    ) -> None:
        self._grammar = grammar
        self._shape = shape
        self._values = values
        self._raw = raw

    def event(self) -> bytes:
        shape, values = self._shape, self._values
        linkage = EventLinkage()
        if shape.random() < 0.3:
            linkage = EventLinkage(
                tuple(Bundle(values.choice("abc"), values.randrange(9)) for _ in range(2))
            )
        return write_event(
            EventId(values.choice(["me", "you"]), values.randrange(10**13), values.randrange(5), 1),
            values.choice(["a.b", "c"]),
            EventType(
                "made",
                "1.0",
                security_level=shape.choice(list(SecurityLevel)),
                liveness=shape.choice(list(Liveness)),
            ),
            self._element(0, 0).encode() if shape.random() < 0.95 else None,
            linkage=linkage,
            summary=shape.choice([None, self._text()]),
        )

    def _element(self, number: int, depth: int) -> str:
        shape, (kind, below) = self._shape, self._grammar.models[number]
        name = _name(number)
        head = name + (' xmlns:p="urn:p"' if number == 0 else "")
        for attribute in self._grammar.attributes[number]:
            if attribute == "must" or shape.random() < 0.4:
                head += shape.choice([" ", "  ", "\n"]) + attribute + "=" + self._value(attribute)
        if kind == "any":
            below = list(range(number + 1, len(self._grammar.models)))
        if kind == "empty":
            return f"<{head}/>"
        if kind == "leaf" or (kind in ("any", "mixed") and (shape.random() < 0.5 or not below)):
            return f"<{head}>{self._text()}</{name}>"
        inside = []
        for _ in range(shape.randint(0, 3 if depth < 4 else 1)):
            inside.append(shape.choice(["", "", " ", "\n  "]))
            inside.append(self._element(shape.choice(below), depth + 1))
            if kind != "some" and shape.random() < 0.2:
                inside.append(self._text())
        return f"<{head}>{''.join(inside)}</{name}>"

    def _text(self) -> str:
        # Emptiness is part of the structure.
        empty = self._shape.random() < 0.1
        if self._raw and self._values.random() < 0.1:
            return self._values.choice(_RAW)
        text = self._values.choice(_TEXTS if self._raw else _TEXTS[1:-2])
        return "" if empty else escape(text)

    def _value(self, attribute: str) -> str:
        fixed = {"fixed": "f", "choice": self._shape.choice("abc"), "xml:lang": "en"}
        if attribute == "token":
            return quoteattr(self._shape.choice(["t1", "t2"]))
        value = fixed.get(attribute) or self._values.choice(_TEXTS if self._raw else _TEXTS[3:-2])
        # `quoteattr` would write tabs as references and use single quotes.
        return '"' + escape(value, {'"': "&quot;"}) + '"'


def _name(number: int) -> str:
    return f"p:e{number}" if number == 3 else f"e{number}"
