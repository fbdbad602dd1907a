"""Settings of the node's own log."""

from __future__ import annotations

from typing import Any, Final

import attrs
from twisted.logger import LogLevel

from broker.config import value_kind
from broker.config.setting import ValueKind, setting

LEVELS: Final = tuple(level.name for level in LogLevel.iterconstants())


def _read_module(value: object) -> str:
    module, equal, level = value.partition("=") if isinstance(value, str) else ("", "", "")
    if not (module and equal) or level not in LEVELS:
        raise ValueError
    return f"{module}={level}"


_MODULE: Final[ValueKind[str]] = ValueKind(
    'a module and a level, such as "broker.cluster=debug"', _read_module, lambda text: f'"{text}"'
)


@attrs.frozen
class LoggingSettings:
    """The node's own log, which twistd writes."""

    level: str = setting(
        value_kind.choice(*LEVELS), "debug", "Lowest level of messages that are written."
    )
    modules: tuple[str, ...] = setting(
        value_kind.list_of(_MODULE),
        (),
        "Other levels for modules and all below them; the longest name counts.",
    )

    def levels(self) -> dict[str, Any]:
        """Return levels by module; that of "" is the default."""
        pairs = [each.split("=") for each in (f"={self.level}", *self.modules)]
        return {module: LogLevel.lookupByName(level) for module, level in pairs}
