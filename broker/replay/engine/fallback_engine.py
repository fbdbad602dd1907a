"""Choice of the engine: Spark if it is available, else pure Python."""

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
    def __init__(self, first: Engine, second: Engine, notice: Callable[[str], object]) -> None:
        """`notice` is called on the thread that runs jobs."""
        self._first: Engine | None = first
        self._second = second
        self._notice = notice

    @property
    def name(self) -> str:
        return (self._first or self._second).name

    def warm_up(self) -> None:
        """An unavailable first engine is not tried again."""
        if self._first is None:
            return
        try:
            self._first.warm_up()
        except EngineUnavailable as error:
            self._first.close()
            self._first = None
            self._notice(f"{error}. Replays use the slower pure-Python engine")

    def run(
        self,
        requests: Sequence[ReplayRequest],
        folder: Path,
        progress: ReportProgress,
        cancelled: Callable[[], bool],
    ) -> list[Report]:
        self.warm_up()
        if self._first is not None:
            try:
                return self._first.run(requests, folder, progress, cancelled)
            except EngineUnavailable as error:
                self._notice(f"{error}. This job uses the slower pure-Python engine")
            shutil.rmtree(folder)
            folder.mkdir()
        return self._second.run(requests, folder, progress, cancelled)

    def close(self) -> None:
        if self._first is not None:
            self._first.close()
        self._second.close()
