"""Fixtures for the whole suite."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from broker.replay.garbage_collection import tune_garbage_collector
from tests import seeds
from tests.capability import SHARED_DATA, need
from tests.drop_in import drop_in
from tests.skip_rule import SkipRule

__all__ = ["drop_in"]

# Both measure the machine's load rather than the code.
settings.register_profile("any load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any load")
# The tests start hundreds of processes: without bytecode each of them compiles all modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Spark's JVMs live for seconds: optimising their code takes longer than running it.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SkipRule(), "skip-rule")
    seeds.has_soak = config.option.markexpr != "not soak"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files with tests of processes and with slow tests first.

    They wait most of the time. With several workers, others compute meanwhile, and no long test is
    left for the end.
    """
    waiting = {
        item.path
        for item in items
        if any(item.get_closest_marker(name) for name in ("system", "slow"))
    }
    items.sort(key=lambda item: item.path not in waiting)


def pytest_collection_finish() -> None:
    """Exclude modules and tests from later garbage collections: they live until the end.

    With Python's own thresholds, a fifth of the suite's processor time is garbage collection.
    """
    tune_garbage_collector()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    need("shared-data")
    return SHARED_DATA
