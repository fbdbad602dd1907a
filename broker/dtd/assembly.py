"""Expand a DTD and its modules into one self-contained text.

libxml2 would resolve parameter entities itself, from disk or network and without limits. So it gets
element and attribute declarations only. The result is canonical: no comments, single spaces, one
declaration a line. Texts with equal declarations have equal hashes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

import attrs

from broker.dtd.source_text import SourceText, decode_text
from broker.dtd.xsd.bundle import INSTRUCTION_START, read_instruction, write_instruction
from broker.errors import BadDtd

#: Returns an external entity by public and system identifier; None: unknown.
Resolver: TypeAlias = Callable[[str | None, str], bytes | None]


@attrs.frozen
class AssemblyLimits:
    max_text: int = 256 * 1024
    #: Bytes of the DTD itself, or a module.

    max_expanded: int = 1024 * 1024
    #: Characters of all replacement texts, counted at each use.

    max_depth: int = 16

    max_expansions: int = 10_000

    max_declarations: int = 10_000


@attrs.frozen
class Assembled:
    text: bytes
    #: Element and attribute declarations, one a line, then the line of the schema, if any.

    element_locations: dict[str, tuple[int, str]]
    #: Line and module ("" for the DTD itself).

    schema: bytes | None = None
    #: The packed XML Schema of the payloads.


def assemble(text: bytes, resolve: Resolver, limits: AssemblyLimits | None = None) -> Assembled:
    """Raises `BadDtd` with the line for a malformed DTD, an unresolved entity, general entities,
    notations, conditional sections, and a passed limit."""
    limits = limits or AssemblyLimits()
    assembly = _Assembly(resolve, limits)
    assembly.expand_subset(SourceText(decode_text(text, "the DTD", limits.max_text)))
    declarations = "".join(assembly.declarations).encode()
    schema = assembly.schema
    if schema is not None:
        declarations += write_instruction(schema)
    return Assembled(declarations, assembly.element_locations, schema)


_NAME = r"[A-Za-z_:][A-Za-z0-9._:\-]*"
_SPACE = re.compile(r"[ \t\r\n]+")
_REFERENCE = re.compile(rf"%({_NAME});")
_DECLARATION = re.compile(r"<!([A-Z]+)(?=[ \t\r\n%])")
_WORD = re.compile(r"[^ \t\r\n<>\"'%]+")
# An occurrence sign has no space before it.
_PIECE = re.compile(r"\)[?*+]?|[(|,]|[^()|,]+")
_IN_VALUE = re.compile(rf"%({_NAME});|&#(?:([0-9]{{1,7}})|x([0-9a-fA-F]{{1,6}}));|[%]|&#")
_GENERAL = re.compile(r"&(?:(#[0-9]{1,7}|#x[0-9a-fA-F]{1,6}|amp|lt|gt|quot|apos);)?")
_PREDEFINED: Final = frozenset({"amp", "lt", "gt", "quot", "apos"})
# A semicolon ends a reference, whose replacement is padded with spaces.
_BEFORE_LITERAL: Final = frozenset({"", " ", "\n", "\t", ";"})
_AFTER_LITERAL: Final = frozenset({"", " ", "\n", "\t", ">", "%"})


def _canonical(tokens: list[str]) -> str:
    """Use the fewest spaces that the grammar allows."""
    parts: list[str] = []
    for token in tokens:
        if token == " ":
            if not parts or parts[-1] not in (" ", "(", "|", ","):
                parts.append(token)
        else:
            if token[0] in ")|," and parts and parts[-1] == " ":
                parts.pop()
            parts.append(token)
    return "".join(parts).rstrip(" ")


@attrs.frozen
class _Internal:
    value: str


@attrs.frozen
class _External:
    public_id: str | None
    system_id: str


class _Assembly:
    def __init__(self, resolve: Resolver, limits: AssemblyLimits) -> None:
        self.declarations: list[str] = []
        self.element_locations: dict[str, tuple[int, str]] = {}
        self.schema: bytes | None = None
        self._resolve = resolve
        self._limits = limits
        self._entities: dict[str, _Internal | _External] = {}
        self._open_entities: list[str] = []
        self._expanded = 0
        self._expansions = 0
        self._declaration_count = 0

    def expand_subset(self, source: SourceText) -> None:
        text, at = source.text, 0
        while at < len(text):
            if space := _SPACE.match(text, at):
                at = space.end()
            elif reference := _REFERENCE.match(text, at):
                self.expand_subset(self._open_entity(reference[1], source, at))
                self._open_entities.pop()
                at = reference.end()
            elif text.startswith("<!--", at):
                at = source.find_end("-->", at + 4, at, "a comment is not closed")
            elif text.startswith("<?", at):
                start = at
                at = source.find_end("?>", at + 2, at, "a processing instruction is not closed")
                if text.startswith(INSTRUCTION_START, start):
                    self._add_schema(text[start:at], source, start)
            elif text.startswith("<![", at):
                source.raise_error(at, "conditional sections are not supported")
            elif declaration := _DECLARATION.match(text, at):
                at = self._read_declaration(declaration[1], source, at, declaration.end())
            else:
                source.raise_error(at, f"no declaration starts here: {text[at : at + 40]!r}")

    def _read_declaration(self, keyword: str, source: SourceText, start: int, at: int) -> int:
        self._declaration_count += 1
        if self._declaration_count > self._limits.max_declarations:
            source.raise_error(start, f"more than {self._limits.max_declarations} declarations")
        tokens: list[str] = []
        end = self._read_tokens(source, at, tokens, declaration=start)
        words = [token for token in tokens if token != " "]
        if keyword == "ELEMENT":
            self._add_element(words, source, start)
        elif keyword == "ATTLIST":
            self._check_literals(words, source, start)
        elif keyword == "ENTITY":
            self._declare_entity(words, source, start)
            return end
        elif keyword == "NOTATION":
            source.raise_error(
                start, "notations are not supported: events have no unparsed entities"
            )
        else:
            source.raise_error(start, f"<!{keyword} is not a DTD declaration")
        self.declarations.append(f"<!{keyword}{_canonical(tokens)}>\n")
        return end

    def _add_schema(self, instruction: str, source: SourceText, start: int) -> None:
        if self.schema is not None or source.label:
            source.raise_error(start, "only the DTD itself has a schema, and only one")
        try:
            self.schema = read_instruction(instruction)
        except BadDtd as error:
            source.raise_error(start, error.text)

    def _add_element(self, words: list[str], source: SourceText, start: int) -> None:
        name = words[0] if words else ""
        if name in self.element_locations:
            source.raise_error(start, f"element {name!r} is declared twice")
        self.element_locations[name] = (source.line(start), source.label)

    def _check_literals(self, words: list[str], source: SourceText, start: int) -> None:
        for word in words:
            if word[0] in "\"'" and any(found[1] is None for found in _GENERAL.finditer(word)):
                source.raise_error(
                    start,
                    "a default value may use character references and the five predefined "
                    f"entities only: {word[:60]}",
                )

    def _read_tokens(
        self, source: SourceText, at: int, tokens: list[str], declaration: int | None = None
    ) -> int:
        """Collect tokens up to the end of the declaration or entity.

        White space becomes the token " ". Returns the position behind the `>`. An entity must hold
        whole tokens and may not end the declaration (XML's proper nesting).
        """
        text = source.text
        while at < len(text):
            sign = text[at]
            if space := _SPACE.match(text, at):
                tokens.append(" ")
                at = space.end()
            elif sign in "\"'":
                end = source.find_end(sign, at + 1, at, "a literal is not closed")
                before, behind = text[max(at - 1, 0) : at], text[end : end + 1]
                if before not in _BEFORE_LITERAL or behind not in _AFTER_LITERAL:
                    source.raise_error(at, "a literal needs white space around it")
                tokens.append(text[at:end].replace("\n", " ").replace("\t", " "))
                at = end
            elif reference := _REFERENCE.match(text, at):
                # XML pads the replacement.
                tokens.append(" ")
                self._read_tokens(self._open_entity(reference[1], source, at), 0, tokens)
                self._open_entities.pop()
                tokens.append(" ")
                at = reference.end()
            elif sign == "%" and text[at + 1 : at + 2].isspace():
                tokens.append(sign)
                at += 1
            elif sign == ">" and declaration is not None:
                return at + 1
            elif word := _WORD.match(text, at):
                tokens.extend(_PIECE.findall(word[0]))
                at = word.end()
            else:
                source.raise_error(at, f"{sign!r} can not stand within a declaration")
        if declaration is not None:
            source.raise_error(declaration, "a declaration is not closed")
        return at

    def _declare_entity(self, words: list[str], source: SourceText, start: int) -> None:
        match words:
            case ["%", name, literal] if literal[0] in "\"'":
                entity: _Internal | _External = _Internal(
                    self._replacement_text(literal, source, start)
                )
            case ["%", name, "SYSTEM", system] if system[0] in "\"'":
                entity = _External(None, system[1:-1])
            case ["%", name, "PUBLIC", public, system] if public[0] in "\"'" and system[0] in "\"'":
                entity = _External(public[1:-1], system[1:-1])
            case ["%", *_]:
                source.raise_error(start, "the declaration of a parameter entity is malformed")
            case [name, *_] if name in _PREDEFINED:
                return
            case _:
                source.raise_error(
                    start,
                    f"general entity {(words or [''])[0]!r}: events may use only the five "
                    "predefined ones",
                )
        # The first declaration binds (XML 1.0, 4.2): a driver overrides its modules.
        self._entities.setdefault(name, entity)

    def _replacement_text(self, literal: str, source: SourceText, start: int) -> str:
        parts: list[str] = []
        at, last = 1, len(literal) - 1
        for found in _IN_VALUE.finditer(literal, 1, last):
            parts.append(literal[at : found.start()])
            at = found.end()
            name, decimal, hexadecimal = found.groups()
            if name is not None:
                parts.append(self._open_entity(name, source, start).text)
                self._open_entities.pop()
            elif decimal is not None or hexadecimal is not None:
                code = int(decimal) if decimal is not None else int(hexadecimal, 16)
                if not (code in (9, 10, 13) or 32 <= code < 0xD800 or 0xE000 <= code < 0xFFFE):
                    source.raise_error(start, f"character reference {found[0]} in an entity")
                parts.append(chr(code))
            else:
                source.raise_error(start, f"{found[0]!r} in an entity's value is not a reference")
        parts.append(literal[at:last])
        value = "".join(parts)
        self._count_expanded(len(value), source, start)
        return value

    def _open_entity(self, name: str, source: SourceText, at: int) -> SourceText:
        """Return the replacement text; the caller pops `_open_entities` when done."""
        entity = self._entities.get(name)
        if entity is None:
            source.raise_error(at, f"parameter entity %{name}; is not declared")
        if name in self._open_entities:
            source.raise_error(at, f"parameter entity %{name}; contains itself")
        if len(self._open_entities) >= self._limits.max_depth:
            source.raise_error(at, f"entities are nested deeper than {self._limits.max_depth}")
        self._expansions += 1
        if self._expansions > self._limits.max_expansions:
            source.raise_error(at, f"more than {self._limits.max_expansions} uses of entities")
        if isinstance(entity, _Internal):
            inner = SourceText(entity.value, source.label, fixed_line=source.line(at))
        else:
            inner = self._resolve_external(name, entity, source, at)
        self._count_expanded(len(inner.text), source, at)
        self._open_entities.append(name)
        return inner

    def _resolve_external(
        self, name: str, entity: _External, source: SourceText, at: int
    ) -> SourceText:
        text = self._resolve(entity.public_id, entity.system_id)
        if text is None:
            identifier = entity.public_id or entity.system_id
            source.raise_error(
                at, f"%{name}; is {identifier[:120]!r}, which is not in the catalogue"
            )
        label = entity.system_id[:120]
        return SourceText(decode_text(text, label, self._limits.max_text), label)

    def _count_expanded(self, characters: int, source: SourceText, at: int) -> None:
        self._expanded += characters
        if self._expanded > self._limits.max_expanded:
            source.raise_error(
                at, f"entities expand to more than {self._limits.max_expanded} characters"
            )
