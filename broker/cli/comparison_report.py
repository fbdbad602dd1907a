"""Table of the variants that a group compares, from the status of a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_NAMES: Final = ("variant", "own ms", "p99", "others ms", "p99", "messages", "late", "extra bytes")


def comparison_lines(group: Mapping[str, Any]) -> Iterator[str]:
    """Yield a title, a table, and the verdict of each variant."""
    comparison = group["comparison"]
    variants = comparison.get("variants", ())
    yield f"{group.get('name')}: {group.get('order')} delivers{_clock_text(comparison)}"
    rows = [_NAMES, *map(_row, variants)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(_NAMES))]
    for first, *others in rows:
        cells = map(str.rjust, others, widths[1:])
        yield "  ".join((first.ljust(widths[0]), *cells))
    for each in variants:
        yield f"{each.get('variant')}: {each.get('verdict')}"
    for site in group.get("peers", ()):
        if site.get("comparison_error"):
            yield f"{site.get('site')} has no part any more: {site['comparison_error']}"
        elif not site.get("compares"):
            yield f"{site.get('site')} has no part"


def _clock_text(comparison: Mapping[str, Any]) -> str:
    bound = comparison.get("clock_uncertainty")
    return f", clocks ± {bound * 1000:.1f} ms" if isinstance(bound, int | float) else ""


def _row(variant: Mapping[str, Any]) -> tuple[str, ...]:
    delays = ("own_median", "own_p99", "others_median", "others_p99")
    counts = ("messages", "late", "extra_bytes")
    return (
        str(variant.get("variant")),
        *(_milliseconds(variant.get(key)) for key in delays),
        *(f"{variant.get(key, 0):,}" for key in counts),
    )


def _milliseconds(seconds: object) -> str:
    return f"{seconds * 1000:.1f}" if isinstance(seconds, int | float) else "-"
