"""Durations and sizes as text: `"7d"`, `"5ms"`, `"64MiB"`, `"10kB"`.

A bare number is seconds or bytes. Durations are float seconds, sizes whole bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

DURATION_UNITS: Final[Mapping[str, float]] = {
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
SIZE_UNITS: Final[Mapping[str, int]] = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)", re.ASCII)


def parse_duration(value: object) -> float:
    """Return seconds; `ValueError` gives the reason."""
    if isinstance(value, str):
        number, unit = _split(value, DURATION_UNITS, "s")
        # 5 * 0.001 is not 0.005 for every number.
        seconds = float(number) / 1000 if unit == "ms" else float(number) * DURATION_UNITS[unit]
    else:
        seconds = _check_number(value)
    return seconds


def parse_size(value: object) -> int:
    """Return bytes; `ValueError` gives the reason."""
    if isinstance(value, str):
        number, unit = _split(value, SIZE_UNITS, "B")
        if "." not in number:
            return int(number) * SIZE_UNITS[unit]
        size = float(number) * SIZE_UNITS[unit]
    else:
        size = _check_number(value)
    if not size.is_integer():
        raise ValueError("it is not a whole number of bytes")
    return int(size)


def format_duration(seconds: float) -> str:
    """Return the shortest text."""
    for unit in ("d", "h", "m", "s", "ms"):
        number = seconds * 1000 if unit == "ms" else seconds / DURATION_UNITS[unit]
        if number >= 1 and number.is_integer() and parse_duration(f"{number:.0f}{unit}") == seconds:
            return f"{number:.0f}{unit}"
    # repr may write an exponent, which `parse_duration` rejects.
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def format_size(size: int) -> str:
    """Return the shortest text."""
    best = f"{size}B"
    for unit, factor in SIZE_UNITS.items():
        if size and size % factor == 0:
            text = f"{size // factor}{unit}"
            best = min(best, text, key=len)
    return best


def _split(text: str, units: Mapping[str, float] | Mapping[str, int], bare: str) -> tuple[str, str]:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"it is not a number and one unit of {', '.join(units)}")
    number, unit = found.groups()
    if unit and unit not in units:
        raise ValueError(f"the unit {unit[:20]!r} is not one of {', '.join(units)}")
    return number, unit or bare


def _check_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("it is neither a number nor a text")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError("it is too large") from None
    if not math.isfinite(number) or number < 0:
        raise ValueError("it is negative or not a number")
    return number
