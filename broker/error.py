"""Bases of all errors, and their form on the wire."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

#: (code, text, line, column); 0 without a place.
WireError: TypeAlias = tuple[str, str, int, int]


class BrokerError(Exception):
    """Base of all errors. `line` and `column` count from 1; 0 means no place in a text."""

    code: ClassVar[str] = ""
    _by_code: ClassVar[dict[str, type[BrokerError]]] = {}

    def __init__(self, text: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.line = line
        self.column = column

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" in cls.__dict__ and BrokerError._by_code.setdefault(cls.code, cls) is not cls:
            raise TypeError(f"error code {cls.code!r} has two classes")

    def __str__(self) -> str:
        if self.line:
            return f"{self.text} (line {self.line}, column {self.column})"
        return self.text

    def to_wire(self) -> WireError:
        return (self.code, self.text, self.line, self.column)


def from_wire(wire: WireError) -> BrokerError:
    """Return the error of a tuple; `UnknownPeerError` for the code of a later version.

    Its text becomes one line: a peer must not begin others on a terminal.
    """
    code, text = (" ".join(each.splitlines()) for each in wire[:2])
    line, column = wire[2:]
    known = BrokerError._by_code.get(code)
    if known is None:
        return UnknownPeerError(f"{code}: {text}", line=line, column=column)
    return known(text, line=line, column=column)


class OurError(BrokerError):
    """Wrong configuration or call of this process, or failure of its own resources."""


class PeerError(BrokerError):
    """Broken rule of the other side. The error is sent to it and counted."""


class UnknownPeerError(PeerError):
    """A peer's error with a code that this version does not know."""

    code = "unknown"
