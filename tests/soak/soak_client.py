from __future__ import annotations

import json
import signal
from pathlib import Path
from random import Random
from typing import Final

from tests.soak.interests import ALL_INTERESTS, INTERESTS, LATE_READERS, PUBLISHERS
from tests.soak.layout import NAMES, Layout
from tests.soak.process import SoakProcess

_RUN: Final = (
    # Signals may arrive before the handlers.
    "import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
    "import asyncio, json, sys\nfrom tests.soak.client import main\n"
    "asyncio.run(main(json.loads(sys.argv[1])))\n"
)
LAST_RECEIPTS: Final = 90.0


class SoakClient:
    def __init__(self, name: str, layout: Layout, random: Random, rate: float) -> None:
        self.name = name
        self._layout = layout
        self._random = random
        self._rate = rate
        self._folder = layout.folder / "clients"
        self.processes: list[SoakProcess] = []
        self.closed: list[int] = []
        self.is_claimed = False
        self.version = 0
        """Of the unknown type."""
        if name in PUBLISHERS:
            self._nodes = list(PUBLISHERS[name])
        elif name in LATE_READERS:
            self._nodes = [LATE_READERS[name]]
        else:
            first = NAMES[(list(INTERESTS).index(name) + 1) % len(NAMES)]
            self._nodes = [first, *(each for each in NAMES if each != first)]

    def shuffle_nodes(self) -> None:
        self._random.shuffle(self._nodes)

    def notebook_of(self, number: int) -> Path:
        return self._folder / f"{self.name}.{number}.jsonl"

    @property
    def is_running(self) -> bool:
        return bool(self.processes) and self.processes[-1].is_running

    def start_process(self) -> None:
        if self.is_running:
            return
        number = len(self.processes) + 1
        arguments: dict[str, object] = {
            "client": self.name,
            "endpoints": [self._layout.endpoint(node) for node in self._nodes],
            "notes": str(self.notebook_of(number)),
            "state": "",
        }
        if self.name in ALL_INTERESTS:
            arguments["interest"] = self.name
            if ALL_INTERESTS[self.name].has_state_folder:
                arguments["state"] = str(self._folder / "state")
        else:
            arguments |= {
                "seed": self._random.randrange(1 << 30),
                "rate": self._rate,
                "dtds": f"http://127.0.0.1:{self._layout.dtd_port}/",
                "version": self.version,
                "state": str(self._folder / "state"),
            }
        log = self._folder / f"{self.name}.log"
        self._folder.mkdir(exist_ok=True)
        (self._folder / "state").mkdir(exist_ok=True)
        self.processes.append(SoakProcess(_RUN, (json.dumps(arguments),), self._folder, log))

    def kill(self) -> None:
        if self.is_running:
            self.processes[-1].kill()

    def close(self, seconds: float = 15.0) -> bool:
        """Send SIGKILL after `seconds`; return whether it stopped in time."""
        if not self.is_running:
            return True
        process = self.processes[-1]
        process.send(signal.SIGTERM)
        ended = process.wait(seconds)
        process.kill()
        return ended

    def next_version(self) -> None:
        self.version += 1
        if self.is_running:
            self.processes[-1].send(signal.SIGUSR1)


def make_clients(layout: Layout, random: Random, rate: float) -> dict[str, SoakClient]:
    names = (*INTERESTS, *PUBLISHERS, *LATE_READERS)
    return {name: SoakClient(name, layout, random, rate) for name in names}
