"""Drop-ins for `twisted.plugin` of one test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import twisted.plugins
from broker.transport.stacks import find_plugins

DropIn = Callable[[str, str], None]


@pytest.fixture
def drop_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DropIn]:
    """Write a module into a folder of plug-ins of this test."""
    folder = tmp_path / "twisted" / "plugins"
    folder.mkdir(parents=True)
    monkeypatch.setattr(twisted.plugins, "__path__", [*twisted.plugins.__path__, str(folder)])
    find_plugins.cache_clear()

    def write(name: str, text: str) -> None:
        (folder / f"{name}.py").write_text(text)

    yield write
    find_plugins.cache_clear()
    for path in folder.glob("*.py"):
        sys.modules.pop(f"twisted.plugins.{path.stem}", None)
