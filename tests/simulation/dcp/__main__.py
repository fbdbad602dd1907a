"""Schedules of many seeds: `python -m tests.simulation.dcp FIRST LAST [--churn]`."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from multiprocessing import Pool

import click

from tests.simulation.dcp.churn import Churn
from tests.simulation.dcp.mesh_run import MeshRun

_OPERATIONS = 100
_SHOWN = 5


@click.command()
@click.argument("first", type=int)
@click.argument("last", type=int)
@click.option("--churn", is_flag=True, help="Only joins, departures and crashes: the graph (A6).")
@click.option("--processes", type=int, default=os.cpu_count(), show_default="one for each CPU")
def main(first: int, last: int, churn: bool, processes: int) -> None:
    """Check the seeds FIRST to LAST; exit with status 1 if one fails.

    A failing seed is printed with its schedule and its first violations.
    """
    begin, failed = time.perf_counter(), 0
    seeds = range(first, last + 1)
    with Pool(processes) as pool:
        for lines in pool.imap(partial(run_seed, churn=churn), seeds, chunksize=2):
            failed += bool(lines)
            print(*lines, sep="\n", end="\n" if lines else "", flush=True)
    rate = len(seeds) / (time.perf_counter() - begin)
    print(f"{len(seeds)} seeds, {rate:.1f} a second, {failed} failed")
    sys.exit(bool(failed))


def run_seed(seed: int, *, churn: bool) -> list[str]:
    """Return the lines of a failure; none if all checks hold."""
    if churn:
        violations, title = Churn(seed).run(_OPERATIONS), "churn"
    else:
        run = MeshRun(seed)
        try:
            violations = run.run()
        except AssertionError as error:
            violations = [repr(error)]
        title = str(run.schedule)
    if not violations:
        return []
    more = [f"  and {len(violations) - _SHOWN} more"] if len(violations) > _SHOWN else []
    return [f"seed {seed}: {title}", *(f"  {each}" for each in violations[:_SHOWN]), *more]


if __name__ == "__main__":
    main()
