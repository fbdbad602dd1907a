"""What a benchmark is given to work with."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from benchmarks.harness.children import Children


@attrs.frozen
class Lab:
    """The place of one benchmark."""

    children: Children
    folder: Path
    """Where nodes keep their data: the disk that durable means."""
    quick: bool
    """Whether it is only to be shown that all of it works: the figures then mean nothing."""
    say: Callable[[str], None]
    """Tells the person who waits what is going on."""
    events: int = 0
    """So many events, where a benchmark lets that be said; 0: as many as it takes by itself."""

    @contextmanager
    def empty_folder(self) -> Iterator[Path]:
        """A folder that is there for the time of the `with` block."""
        with tempfile.TemporaryDirectory(prefix="xmlbroker-bench-", dir=self.folder) as name:
            yield Path(name)
