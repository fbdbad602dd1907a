"""A figure of an experiment beside that of the paper, with its bound."""

from __future__ import annotations

from typing import Any

import attrs

from benchmarks.harness.report import Sheet, format_number


@attrs.frozen
class Finding:
    experiment: str
    what: str
    value: float
    unit: str
    paper: str = ""
    """Value of the paper, or empty."""
    least: float | None = None
    most: float | None = None

    @property
    def is_met(self) -> bool:
        return (self.least is None or self.value >= self.least) and (
            self.most is None or self.value <= self.most
        )

    @property
    def bound(self) -> str:
        if self.least is not None and self.most is not None:
            if self.least == self.most:
                return _text(self.least, self.unit)
            return f"{_text(self.least, '')} to {_text(self.most, self.unit)}"
        if self.least is not None:
            return f">= {_text(self.least, self.unit)}"
        return "" if self.most is None else f"<= {_text(self.most, self.unit)}"

    @property
    def verdict(self) -> str:
        if self.least is None and self.most is None:
            return ""
        return "PASS" if self.is_met else "MISSED"

    def as_json(self) -> dict[str, Any]:
        return {**attrs.asdict(self), "verdict": self.verdict}


def make_sheet(title: str, findings: list[Finding], *, quick: bool) -> Sheet:
    rows = [
        (
            *(each.experiment, each.what, each.paper, _text(each.value, each.unit)),
            *(each.bound, "means nothing" if quick and each.verdict else each.verdict),
        )
        for each in findings
    ]
    return Sheet(title, ("experiment", "figure", "paper", "ours", "must show", ""), rows)


def _text(value: float, unit: str) -> str:
    number = f"{value:.2f}" if unit == "%" else format_number(value)
    return f"{number} {unit}".strip()
