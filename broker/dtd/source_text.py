"""Text of a DTD or module, with positions for errors."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NoReturn

from broker.errors import BadDtd

_TEXT_DECLARATION = re.compile(
    r"<\?xml(?:[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*['\"]1\.0['\"])?"
    r"(?:[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*['\"]([A-Za-z0-9._-]+)['\"])?[ \t\r\n]*\?>"
)
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class SourceText:
    """Text with positions for errors.

    `label` names a module and is empty for the DTD. A replacement has the line of its reference
    (`fixed_line`).
    """

    def __init__(self, text: str, label: str = "", fixed_line: int | None = None) -> None:
        self.text = text
        self.label = label
        self._fixed_line = fixed_line
        self._newlines: list[int] | None = None

    def line(self, at: int) -> int:
        if self._fixed_line is not None:
            return self._fixed_line
        if self._newlines is None:
            self._newlines = [found.start() for found in re.finditer("\n", self.text)]
        return bisect_left(self._newlines, at) + 1

    def find_end(self, mark: str, start: int, opened: int, problem: str) -> int:
        """Return the position behind `mark`; `BadDtd` at `opened` without one."""
        found = self.text.find(mark, start)
        if found < 0:
            self.raise_error(opened, problem)
        return found + len(mark)

    def raise_error(self, at: int, problem: str) -> NoReturn:
        where = f" (in {self.label})" if self.label else ""
        line = self.line(at)
        column = 0 if self._fixed_line is not None else at - self.text.rfind("\n", 0, at)
        raise BadDtd(problem + where, line=line, column=column)


def decode_text(text: bytes, label: str, limit: int) -> str:
    """Decode a text, without byte order mark and text declaration.

    Line numbers stay those of the file. Raises `BadDtd` for more than `limit` bytes, another
    encoding than UTF-8, or characters that XML forbids.
    """
    if len(text) > limit:
        raise BadDtd(f"{label} is longer than {limit} bytes")
    try:
        characters = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise BadDtd(f"{label} is not in UTF-8", line=line) from error
    characters = characters.replace("\r\n", "\n").replace("\r", "\n")
    if illegal := _ILLEGAL.search(characters):
        line = characters.count("\n", 0, illegal.start()) + 1
        raise BadDtd(f"{label} has the illegal character {illegal[0]!r}", line=line)
    if declaration := _TEXT_DECLARATION.match(characters):
        encoding = declaration[1] or "utf-8"
        if encoding.lower() not in ("utf-8", "us-ascii", "ascii"):
            raise BadDtd(f"{label} declares the encoding {encoding}: only UTF-8 is read", line=1)
        breaks = "\n" * declaration[0].count("\n")
        return breaks + characters[declaration.end() :]
    return characters
