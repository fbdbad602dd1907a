"""Skips of tests: allowed for lacking capabilities, otherwise failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capability import CAPABILITIES, Capability, lacking, skipped
from tests.skip_rule import SkipRule

MODULE = """
import pytest
import unittest

def test_runs():
    pass

def test_needs_a_wing():
    pytest.skip("needs wing: it is broken")

@pytest.mark.skipif(True, reason="needs wheel: there is none")
def test_needs_a_wheel():
    pass

class Trial(unittest.TestCase):
    def test_needs_a_wheel_too(self):
        raise unittest.SkipTest("needs wheel: there is none")

@pytest.mark.xfail(strict=True)
def test_is_known_to_fail():
    assert False
"""
WHOLE_MODULE = 'import pytest\npytest.skip("no reason", allow_module_level=True)\n'


def test_a_skip_fails_if_the_machine_has_the_named_capability(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_module.py").write_text(MODULE)
    (tmp_path / "test_whole_module.py").write_text(WHOLE_MODULE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    absent = {"wing": "", "wheel": "there is none"}
    capabilities = {name: Capability(str, f"buy a {name}") for name in absent}
    status = pytest.main(
        [
            *("-p", "no:cacheprovider", "-n0", "--import-mode=importlib"),
            # It collects the garbage of all modules several times.
            *("-p", "no:unraisableexception"),
            *("--continue-on-collection-errors", str(tmp_path)),
        ],
        plugins=[SkipRule(capabilities, absent.__getitem__)],
    )
    text = capfd.readouterr().out
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 1 passed, 2 skipped, 1 xfailed, 1 error" in text
    assert "this machine has the capability wing, yet the test was skipped" in text
    assert "this skip names no capability of tests/capability.py: no reason" in text
    # Remaining skips are listed with their remedy.
    assert "    2 tests needs wheel: there is none (buy a wheel)" in text


def test_every_run_of_this_suite_has_the_rule(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.pluginmanager.has_plugin("skip-rule")


def test_every_probe_answers_and_every_reason_names_its_capability() -> None:
    for name in CAPABILITIES:
        reason = lacking(name)
        assert "\n" not in reason
        assert skipped(name, reason).startswith(f"needs {name}: ")
