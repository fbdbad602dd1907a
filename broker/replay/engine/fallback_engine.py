"""Which engine serves: Spark where it can, else the pure-Python one, with a notice."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from broker.errors import EngineUnavailable
from broker.replay.engine.contract import Engine, Report, ReportProgress
from broker.replay.request import ReplayRequest

AUTO: Final = "auto"
SPARK: Final = "spark"
LOCAL: Final = "local"
ENGINES: Final = (AUTO, SPARK, LOCAL)


class FallbackEngine:
    """Implements `Engine` by another one, and by a second where the first can not."""

    def __init__(self, first: Engine, second: Engine, notice: Callable[[str], object]) -> None:
        """`notice` is told when the second has to serve, and why, from the thread that runs."""
        self._first: Engine | None = first
        self._second = second
        self._notice = notice

    @property
    def name(self) -> str:
        """See `Engine`: of the one that serves."""
        return (self._first or self._second).name

    def warm_up(self) -> None:
        """See `Engine`. Where the first can not be had, it is not tried again."""
        if self._first is None:
            return
        try:
            self._first.warm_up()
        except EngineUnavailable as error:
            self._first.close()
            self._first = None
            self._notice(f"{error}. Until then replays are served by pure Python, which is slower")

    def run(
        self,
        requests: Sequence[ReplayRequest],
        folder: Path,
        progress: ReportProgress,
        cancelled: Callable[[], bool],
    ) -> list[Report]:
        """See `Engine`."""
        self.warm_up()
        if self._first is not None:
            try:
                return self._first.run(requests, folder, progress, cancelled)
            except EngineUnavailable as error:
                self._notice(f"{error}. This job is done by pure Python, which is slower")
            shutil.rmtree(folder)
            folder.mkdir()
        return self._second.run(requests, folder, progress, cancelled)

    def close(self) -> None:
        """See `Engine`."""
        if self._first is not None:
            self._first.close()
        self._second.close()
