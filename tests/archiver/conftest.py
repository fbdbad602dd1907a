from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.archiver.archived_node import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "own")
    yield made
    made.close()


@pytest.fixture
def keeper(tmp_path: Path, site: Site) -> Iterator[Site]:
    made = Site(tmp_path / "keeper", site)
    yield made
    made.close()
