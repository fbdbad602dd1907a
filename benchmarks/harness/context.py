"""Environment of a benchmark."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from benchmarks.harness.children import Children


@attrs.frozen
class BenchmarkContext:
    children: Children
    folder: Path
    """For the nodes' data, on the disk to be measured."""
    quick: bool
    """True: only show that the benchmark works; its figures mean nothing."""
    report_progress: Callable[[str], None]
    events: int = 0
    """For benchmarks that support it; 0: the benchmark's own number."""

    @contextmanager
    def empty_folder(self) -> Iterator[Path]:
        """Yield a folder that exists during the `with` block."""
        with tempfile.TemporaryDirectory(prefix="xmlbroker-bench-", dir=self.folder) as name:
            yield Path(name)
