"""Options of a stack, read into a class of settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

import attrs

from broker.errors import ConfigurationError

S = TypeVar("S")

_TYPES: dict[type, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "a text"),
}


def read_options(stack: str, section: type[S], options: Mapping[str, object]) -> S:
    """Return `section` (an attrs class with bool, int, float or str fields) filled from `options`.

    Raises `ConfigurationError` naming the option if it is unknown, missing, or of another type.
    """
    hints = get_type_hints(section)
    fields = {field.name: field for field in attrs.fields(section)}  # type: ignore[arg-type]
    for name in options:
        if name not in fields:
            known = ", ".join(sorted(fields)) or "none"
            raise ConfigurationError(f"stack {stack}: {name} is unknown; known here: {known}")
    for name, field in fields.items():
        if name not in options and field.default is attrs.NOTHING:
            raise ConfigurationError(f"stack {stack}: {name} is missing")
    return section(
        **{name: _read(stack, name, hints[name], value) for name, value in options.items()}
    )


def _read(stack: str, name: str, kind: type, value: object) -> Any:
    accepted, description = _TYPES[kind]
    # In Python True is an int.
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise ConfigurationError(f"stack {stack}: {name} must be {description}, found {value!r}")
    return kind(value)
