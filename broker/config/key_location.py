"""Locations of keys in a TOML document, which `tomllib` does not return.

The scanner checks nothing: `tomllib` has accepted the text.
"""

from __future__ import annotations

import json
import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from typing import TypeAlias

#: An array's element has its index as the last part.
KeyPath: TypeAlias = tuple[str | int, ...]
#: Line and column, from 1.
Location: TypeAlias = tuple[int, int]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_SCALAR = re.compile(r"[^,\]}#\r\n]*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")' r"|'''.*?'{3,5}(?!')" r'|"(?:[^"\\]|\\.)*"' r"|'[^']*'",
    re.DOTALL,
)


def key_name(path: KeyPath) -> str:
    """Return a full name such as `streams."asdi.>".acknowledge`."""
    parts = (part for part in path if isinstance(part, str))
    return ".".join(part if _BARE_KEY.fullmatch(part) else quote(part) for part in parts)


def quote(text: str) -> str:
    """Return a text in quotes, cut to 80 characters, for an error."""
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if len(quoted) <= 80 else quoted[:77] + "..."


def locate_keys(text: str) -> Mapping[KeyPath, Location]:
    """Return first locations, of array elements too."""
    scanner = _Scanner(text)
    scanner.scan()
    starts = [0] + [found.end() for found in re.finditer("\n", text)]
    spots: dict[KeyPath, Location] = {}
    for path, offset in scanner.offsets.items():
        line = bisect_right(starts, offset)
        spots[path] = (line, offset - starts[line - 1] + 1)
    return spots


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.offsets: dict[KeyPath, int] = {}
        self._lengths: dict[KeyPath, int] = {}

    def scan(self) -> None:
        table: KeyPath = ()
        while self._skip(_BLANK) < len(self.text):
            if self.text.startswith("[[", self.at):
                self.at += 2
                table = self._scan_header(repeated=True)
                self.at += 2
            elif self.text[self.at] == "[":
                self.at += 1
                table = self._scan_header(repeated=False)
                self.at += 1
            else:
                self._scan_pair(table)

    def _scan_header(self, *, repeated: bool) -> KeyPath:
        start = self.at
        path: KeyPath = ()
        for part in self._scan_key():
            # `[a.b]` after `[[a]]` belongs to the array's last table.
            path = self._last_table(path) + (part,)
            self.offsets.setdefault(path, start)
        if repeated:
            self._lengths[path] = self._lengths.get(path, 0) + 1
        path = self._last_table(path)
        self.offsets.setdefault(path, start)
        return path

    def _last_table(self, path: KeyPath) -> KeyPath:
        return (*path, self._lengths[path] - 1) if path in self._lengths else path

    def _scan_pair(self, table: KeyPath) -> None:
        start = self.at
        path = table
        for part in self._scan_key():
            path = (*path, part)
            self.offsets.setdefault(path, start)
        self.at += 1
        self._skip(_SPACE)
        self._scan_value(path)

    def _scan_key(self) -> list[str]:
        parts = []
        while True:
            self._skip(_SPACE)
            if self.text[self.at] in "\"'":
                parts.append(_unquote(self._take(_STRING)))
            else:
                parts.append(self._take(_BARE_KEY))
            self._skip(_SPACE)
            if self.text[self.at] != ".":
                return parts
            self.at += 1

    def _scan_value(self, path: KeyPath) -> None:
        first = self.text[self.at]
        if first in "\"'":
            self._take(_STRING)
        elif first == "[":
            self._scan_array(path)
        elif first == "{":
            self._scan_inline_table(path)
        else:
            self._take(_SCALAR)

    def _scan_array(self, path: KeyPath) -> None:
        self.at += 1
        index = 0
        while self.text[self._skip(_BLANK)] != "]":
            element = (*path, index)
            self.offsets.setdefault(element, self.at)
            self._scan_value(element)
            index += 1
            if self.text[self._skip(_BLANK)] == ",":
                self.at += 1
        self.at += 1

    def _scan_inline_table(self, path: KeyPath) -> None:
        self.at += 1
        while self.text[self._skip(_BLANK)] != "}":
            self._scan_pair(path)
            if self.text[self._skip(_BLANK)] == ",":
                self.at += 1
        self.at += 1

    def _skip(self, blank: re.Pattern[str]) -> int:
        self._take(blank)
        return self.at

    def _take(self, token: re.Pattern[str]) -> str:
        found = token.match(self.text, self.at)
        if found is None:
            raise ValueError(f"not the TOML that was parsed, at offset {self.at}")
        self.at = found.end()
        return found.group()


def _unquote(key: str) -> str:
    name: str = tomllib.loads(f"name = {key}")["name"]
    return name
