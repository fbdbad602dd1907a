"""Fixtures for the whole suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.replay.garbage_collection import tune_garbage_collector
from tests.capability import SHARED_DATA, need
from tests.skip_rule import SkipRule


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SkipRule(), "skip-rule")


def pytest_collection_finish() -> None:
    """Exclude modules and tests from later garbage collections: they live until the end.

    With Python's own thresholds, a fifth of the suite's processor time is garbage collection.
    """
    tune_garbage_collector()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    need("shared-data")
    return SHARED_DATA
