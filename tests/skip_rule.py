"""A pytest plug-in: a skip fails if the machine has the capability that it names, or it names none.

The remaining skips are listed at the end of the run, each with its remedy.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from typing import Final

import pytest

from tests.capability import CAPABILITIES, Capability, lacking

_NAMED: Final = re.compile(r"needs ([a-z0-9-]+): ")


class SkipRule:
    def __init__(
        self,
        capabilities: Mapping[str, Capability] = CAPABILITIES,
        lacking: Callable[[str], str] = lacking,
    ) -> None:
        self._capabilities = capabilities
        self._lacking = lacking

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self,
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.skipped and not hasattr(report, "wasxfail"):
            self._judge(report)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if report.skipped:
            self._judge(report)
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        skips = Counter(
            (_name_in(reason), reason)
            for report in terminalreporter.stats.get("skipped", [])
            if (reason := _reason_of(report))
        )
        if not skips:
            return
        terminalreporter.section("skipped: this machine lacks")
        for (name, reason), count in sorted(skips.items()):
            remedy = self._capabilities[name].remedy if name in self._capabilities else "?"
            terminalreporter.write_line(f"{count:5} tests {reason} ({remedy})")

    def _judge(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        reason = _reason_of(report)
        name = _name_in(reason)
        if name not in self._capabilities:
            complaint = "this skip names no capability of tests/capability.py"
        elif not self._lacking(name):
            complaint = f"this machine has the capability {name}, yet the test was skipped"
        else:
            return
        report.outcome = "failed"
        report.longrepr = f"{complaint}: {reason}"


def _reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return ""


def _name_in(reason: str) -> str:
    found = _NAMED.match(reason)
    return found[1] if found else ""
