"""Pauses of a node's reactor while it reloads thousands of accounts."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from typing import Any, Final

import attrs

from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.report import Floor, Report, Sheet, format_number
from broker.client.asyncio_face import connect
from broker.config.accounts_file import AccountsFile
from broker.config.toml import make_account
from broker.event.stream import StreamPattern
from broker.identity import hash_secret

DESCRIPTION: Final = "pauses of a node that reloads 10,000 accounts beside 100 sessions"

FLOOR_PAUSE_MS: Final = 20.0
ACCOUNTS: Final = 10_000
SESSIONS: Final = 100
RELOADS: Final = 10
_CONFIGURATION: Final = (
    '[identity]\naccounts_file = "accounts.toml"\n[archive]\nenabled = false\n'
    "[limits]\nmax_sessions_per_account = 1000\n"
)
#: Runs in the node: a timer each millisecond. For each run its time, the time since the one before,
#: and the processor time of the reactor's thread since then.
_PROBE: Final = """
import json, time
from twisted.internet import reactor
gaps, last = [], [0.0, 0.0]
def tick():
    now, used = time.monotonic(), time.thread_time()
    gaps.append((now, now - last[0], used - last[1]))
    last[:] = now, used
    reactor.callLater(0.001, tick)
def begin():
    last[:] = time.monotonic(), time.thread_time()
    tick()
reactor.callWhenRunning(begin)
reactor.addSystemEventTrigger("after", "shutdown", lambda: json.dump(gaps, open("gaps", "w")))
from twisted.scripts.twistd import run
run()
"""


@attrs.frozen
class Window:
    """Monotonic time in seconds."""

    begin: float
    end: float

    def longest(self, gaps: list[tuple[float, float, float]], figure: int) -> float:
        """Return the longest gap that overlaps the window, in milliseconds."""
        found = [gap[figure] for gap in gaps if gap[0] > self.begin and gap[0] - gap[1] < self.end]
        return 1e3 * max(found, default=0.0)


def run(context: BenchmarkContext) -> Report:
    accounts, sessions, reloads = (300, 5, 2) if context.quick else (ACCOUNTS, SESSIONS, RELOADS)
    with context.empty_folder() as folder:
        file = AccountsFile(folder / "accounts.toml")
        _write_accounts(file, accounts, sessions)
        node = NodeProcess(context.children, folder, _CONFIGURATION, command=("-c", _PROBE))
        idle, windows = asyncio.run(_reload(context, node.endpoint, file, sessions, reloads))
        node.stop()
        gaps = json.loads((folder / "gaps").read_text())
    pauses = [each.longest(gaps, 1) for each in windows]
    used = [each.longest(gaps, 2) for each in windows]
    seconds = [each.end - each.begin for each in windows]
    quiet = idle.longest(gaps, 1)
    row = [*map(format_number, (max(pauses), statistics.median(pauses), max(used), quiet))]
    return Report(
        name="reload",
        sheets=[
            Sheet(
                f"{reloads} reloads of {accounts:,} accounts, {sessions} sessions",
                [
                    *("", "longest pause, ms", "median, ms", "its processor time, ms"),
                    *("without a reload, ms", "reload, s"),
                ],
                [["xmlbroker", *row, format_number(max(seconds))]],
            )
        ],
        floors=[Floor("longest pause", max(pauses), FLOOR_PAUSE_MS, "ms", at_least=False)],
        notes=[
            "A pause is the time between two runs of a timer of 1 ms in the node. On a busy "
            "machine it includes waits for a processor; the processor time does not."
        ],
        figures={"pauses_ms": pauses, "processor_ms": used, "idle_ms": quiet, "seconds": seconds},
        draw=lambda figure: _draw(figure, pauses),
    )


def _write_accounts(file: AccountsFile, count: int, sessions: int) -> None:
    template = make_account("a", {"secret": hash_secret("secret"), "publish": ["asdi.a", "b.>"]})
    with file.change() as accounts:
        accounts["admin"] = attrs.evolve(
            template, name="admin", client_ids=("admin",), administer=True
        )
        for number in range(count):
            name = f"account-{number}"
            accounts[name] = attrs.evolve(template, name=name, client_ids=(name,))
        for number in range(sessions):
            name = f"session-{number}"
            accounts[name] = attrs.evolve(template, name=name, client_ids=(name,))


async def _reload(
    context: BenchmarkContext, endpoint: str, file: AccountsFile, sessions: int, reloads: int
) -> tuple[Window, list[Window]]:
    """Return a time without a reload, and those of the reloads."""
    names = ["admin", *(f"session-{number}" for number in range(sessions))]
    clients = [connect(endpoint, account=name, secret="secret") for name in names]
    for client in clients:
        await client.when_connected(60.0)
    began = time.monotonic()
    await asyncio.sleep(2.0)
    idle, windows = Window(began, time.monotonic()), []
    for number in range(reloads):
        context.report_progress(f"reload {number + 1} of {reloads}")
        with file.change() as accounts:
            # All accounts change.
            for name, each in accounts.items():
                publish = (StreamPattern.parse(f"asdi.r{number}"), StreamPattern.parse("b.>"))
                accounts[name] = attrs.evolve(each, publish=publish)
        began = time.monotonic()
        answer: Any = await clients[0].ask("reload")
        windows.append(Window(began, time.monotonic()))
        assert answer["applied"] == ["accounts"] and not answer["sessions_ended"], answer
    for client in clients:
        await client.close()
    return idle, windows


def _draw(figure: Any, pauses: list[float]) -> None:
    axes = figure.add_subplot()
    axes.bar(range(1, len(pauses) + 1), pauses)
    axes.axhline(FLOOR_PAUSE_MS, linestyle="--")
    axes.set_xlabel("reload")
    axes.set_ylabel("longest pause in ms")
