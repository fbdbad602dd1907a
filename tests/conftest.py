"""Fixtures for the whole suite."""

from __future__ import annotations

from pathlib import Path

import pytest

#: Real events made by others; it lies beside the checkout and is never part of it.
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data; a test that asks for it is skipped where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real data (../shared/data) is not beside this checkout")
    return SHARED_DATA
