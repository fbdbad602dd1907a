"""Fixtures for the whole suite."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.capability import SHARED_DATA, need
from tests.skip_rule import SkipRule


def pytest_configure(config: pytest.Config) -> None:
    """Judge each skip of a test."""
    config.pluginmanager.register(SkipRule(), "skip-rule")


def pytest_collection_finish() -> None:
    """Keep modules and tests out of every later garbage collection: they live until the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data."""
    need("shared-data")
    return SHARED_DATA
