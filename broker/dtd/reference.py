"""Names of event types: DTD name and version, in a public identifier."""

from __future__ import annotations

import functools
import re
from typing import Final

import attrs

from broker.errors import BadName

#: Only a catalogue resolves it.
SYSTEM_BASE: Final = "https://xmlbroker.example/dtd/"

_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
# Without leading zeros equal versions are spelt alike.
_VERSION = re.compile(r"(?:0|[1-9][0-9]{0,5})(?:\.(?:0|[1-9][0-9]{0,5})){0,3}")
_VARIANT = re.compile(r"[0-9a-f]{64}|")
_PUBLIC_ID = re.compile(r"-//xmlbroker//DTD (\S+) (\S+)//EN")


def _check_type(_reference: object, _attribute: object, value: str) -> None:
    if _TYPE.fullmatch(value) is None:
        raise BadName(
            f"{value[:80]!r} is not an event type: use a letter, "
            "then up to 63 letters, digits, '_', '.' or '-'"
        )


def _check_version(_reference: object, _attribute: object, value: str) -> None:
    if _VERSION.fullmatch(value) is None:
        raise BadName(f"{value[:80]!r} is not a version: use one to four numbers such as 1.0")


def _check_variant(_reference: object, _attribute: object, value: str) -> None:
    if _VARIANT.fullmatch(value) is None:
        raise BadName(f"{value[:80]!r} is not a content hash of 64 hexadecimal digits")


@functools.total_ordering
@attrs.frozen(order=False, cache_hash=True)
class DtdReference:
    """An event type in one version (Mspaces M14, M15, K25), sorted by type, then version.

    Raises `BadName` outside the grammar.
    """

    type: str = attrs.field(validator=_check_type)
    #: Usually the payload's root element.

    version: str = attrs.field(validator=_check_version)

    variant: str = attrs.field(default="", validator=_check_variant)
    #: Content hash of a second text of this name.

    @property
    def public_id(self) -> str:
        return f"-//xmlbroker//DTD {self.type} {self.version}//EN"

    @property
    def system_id(self) -> str:
        """System identifier, unless a publisher gives its own pointer."""
        return f"{SYSTEM_BASE}{self.type}-{self.version}.dtd"

    @property
    def version_key(self) -> tuple[int, ...]:
        """Version as numbers: 1.10 comes after 1.9."""
        return tuple(int(part) for part in self.version.split("."))

    @classmethod
    def from_public_id(cls, public_id: str) -> DtdReference:
        """Raises `BadName`.

        White space is normalised, as XML 1.0 (4.2.2) requires.
        """
        match = _PUBLIC_ID.fullmatch(" ".join(public_id.split()))
        if match is None:
            raise BadName(
                f"{public_id[:120]!r} does not name an event type "
                "as '-//xmlbroker//DTD TYPE VERSION//EN' does"
            )
        return cls(*match.groups())

    def sort_key(self) -> tuple[str, tuple[int, ...], str]:
        return self.type, self.version_key, self.variant

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, DtdReference):
            return NotImplemented
        return self.sort_key() < other.sort_key()

    def __str__(self) -> str:
        text = f"{self.type} {self.version}"
        return f"{text} ({self.variant[:12]})" if self.variant else text
