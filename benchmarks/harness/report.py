"""Results of a benchmark: tables, JSON and a plot."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from rich import box
from rich.console import Console
from rich.table import Table

#: Of output that is not a terminal.
WIDTH: Final = 160


@attrs.frozen
class Sheet:
    """The first column has names."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@attrs.frozen
class Floor:
    """Bound for a figure on a machine like the reference one."""

    what: str
    value: float
    bound: float
    unit: str
    at_least: bool = True
    """Otherwise the value must be below the bound."""

    @property
    def is_met(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value < self.bound


@attrs.define
class Report:
    name: str
    sheets: Sequence[Sheet]
    floors: Sequence[Floor]
    notes: list[str]
    figures: dict[str, Any]
    """For JSON."""
    draw: Callable[[Any], None]
    """Draws on an empty matplotlib figure."""


def print_report(report: Report, console: Console, *, quick: bool) -> None:
    for sheet in report.sheets:
        table = Table(*sheet.columns, title=sheet.title, title_justify="left", box=box.SIMPLE_HEAD)
        table.columns[0].no_wrap = True
        for column in table.columns[1:]:
            column.justify = "right"
        for row in sheet.rows:
            table.add_row(*row)
        console.print(table)
    if report.floors:
        table = Table("floor", "measured", "bound", "", box=box.SIMPLE_HEAD)
        for floor in report.floors:
            sign = ">=" if floor.at_least else "<"
            verdict = "means nothing" if quick else "held" if floor.is_met else "MISSED"
            table.add_row(
                floor.what,
                f"{format_number(floor.value)} {floor.unit}",
                f"{sign} {format_number(floor.bound)} {floor.unit}",
                verdict,
            )
        console.print(table)
    for note in report.notes:
        console.print(f"- {note}")


def write_report(
    report: Report, folder: Path, machine: dict[str, Any], *, quick: bool
) -> list[Path]:
    """Write `NAME.json`, and `NAME.png` if matplotlib is installed; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{report.name}.json"
    content = {
        "benchmark": report.name,
        "quick": quick,
        "machine": machine,
        "floors": [{**attrs.asdict(floor), "held": floor.is_met} for floor in report.floors],
        "notes": report.notes,
        **report.figures,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return [path]
    figure = Figure(figsize=(9, 5), layout="constrained")
    report.draw(figure)
    plot = folder / f"{report.name}.png"
    figure.savefig(plot, dpi=110)
    return [path, plot]


def format_number(value: float) -> str:
    """Three digits if it is small, else thousands separators."""
    if value and abs(value) < 100:
        return f"{value:.3g}"
    return f"{value:,.0f}"
