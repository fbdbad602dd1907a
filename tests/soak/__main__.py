"""`./dev soak`: random faults against six real nodes in three clusters, and a checker.

Each seed gives one run. Nodes, publishers and subscribers are processes. In the end all faults are
repaired. Each broken guarantee of `docs/guarantees.md` is reported with its seed and a trace of its
events; then the exit status is 1 and the run's folder is kept. The seed decides the faults and
their order; the exact moments depend on the machine.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
import time
from pathlib import Path

import click

from tests.soak.dtd_server import DtdServer
from tests.soak.faults import FAULTS
from tests.soak.run import Plan, Verdict, remove, run


def _faults(_: click.Context, __: click.Parameter, value: str) -> list[str]:
    names = list(FAULTS) if value == "all" else [each for each in value.split(",") if each]
    included = [name for name in names if not name.startswith("-")] or list(FAULTS)
    excluded = {name[1:] for name in names if name.startswith("-")}
    if unknown := ({*included} | excluded) - FAULTS.keys():
        raise click.BadParameter(f"{sorted(unknown)}; there are {', '.join(FAULTS)}")
    return [name for name in included if name not in excluded]


@click.command(help=__doc__)
@click.option("--minutes", default=1.0, show_default=True, help="Start new runs for this time.")
@click.option("--seed", default=None, type=int, help="The first seed.  [default: by the clock]")
@click.option("--seconds", default=40.0, show_default=True, help="Duration of a run's faults.")
@click.option(
    "--rate", default=10.0, show_default=True, help="Events per second of each publisher."
)
@click.option(
    "--faults",
    default="all",
    callback=_faults,
    metavar="LIST",
    help="Comma-separated faults; a leading minus excludes one.  [default: all]",
)
@click.option("--keep", is_flag=True, help="Keep the folders of runs without violations, too.")
def main(
    minutes: float, seed: int | None, seconds: float, rate: float, faults: list[str], keep: bool
) -> None:
    # The nodes end too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    first = int(time.time()) % 1_000_000 if seed is None else seed
    end = time.monotonic() + 60 * minutes
    verdicts: list[Verdict] = []
    stopped = False
    print(f"faults: {', '.join(faults) or 'none'}", flush=True)
    try:
        with DtdServer() as dtds:
            while not verdicts or time.monotonic() < end:
                plan = Plan(first + len(verdicts), seconds, faults, rate)
                verdicts.append(_run(plan, dtds.port, keep=keep))
    except KeyboardInterrupt:
        stopped = True
        print(f"stopped; the run of seed {first + len(verdicts)} was not checked")
    failed_seeds = [verdict.seed for verdict in verdicts if verdict.violations]
    events = sum(verdict.events for verdict in verdicts)
    seeds = f"{first} to {first + len(verdicts) - 1}" if verdicts else "none"
    print(f"seeds {seeds}: {events} events acknowledged, violations in {failed_seeds or 'none'}")
    sys.exit(1 if failed_seeds else 130 if stopped else 0)


def _run(plan: Plan, dtd_port: int, *, keep: bool) -> Verdict:
    folder = Path(tempfile.mkdtemp(prefix=f"xmlbroker-soak-{plan.seed}-"))
    started = time.monotonic()
    keep_folder = keep
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        verdict = asyncio.run(run(plan, folder, dtd_port))
        keep_folder |= bool(verdict.violations)
    except BaseException as error:
        # An unexpected error of the soak itself needs the folder.
        keep_folder |= not isinstance(error, KeyboardInterrupt)
        if keep_folder:
            print(f"seed {plan.seed}: kept in {folder}")
        raise
    finally:
        if not keep_folder:
            remove(folder)
    print(
        f"seed {plan.seed}: {verdict.events} events acknowledged ({verdict.of_new_types} of new "
        f"types), {verdict.deliveries} delivered, "
        f"{verdict.faults} notes of faults, {len(verdict.violations)} violations, "
        f"{time.monotonic() - started:.0f} s",
        flush=True,
    )
    for line in verdict.problems:
        print(f"  odd: {line}")
    if verdict.violations:
        print(verdict.text)
    if keep_folder:
        print(f"  kept in {folder}", flush=True)
        (folder / "report.txt").write_text(verdict.text)
    return verdict


if __name__ == "__main__":
    main()
