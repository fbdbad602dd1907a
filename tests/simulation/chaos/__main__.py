"""Chaos runs of many seeds: `python -m tests.simulation.chaos FIRST LAST [--archived] ...`."""

from __future__ import annotations

import os
import sys

import attrs
import click

from tests.simulation.chaos.chaos_run import ChaosRun
from tests.simulation.chaos.fault_options import FaultOptions


@click.command()
@click.argument("first", type=int)
@click.argument("last", type=int)
@click.option("--verbose", is_flag=True, help="Print the faults of seeds that fail.")
def main(first: int, last: int, *, verbose: bool, **dangers: bool) -> None:
    """Run the seeds FIRST to LAST; exit with status 1 if one fails."""
    if sys.flags.hash_randomization:
        # The order of sets depends on the hash seed.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, sys.orig_argv)
    failed = carried = 0
    for seed in range(first, last + 1):
        chaos = ChaosRun(seed, FaultOptions(**dangers))
        try:
            chaos.run()
            carried += chaos.carried
        except AssertionError as error:
            failed += 1
            print(f"seed {seed}: {error}")
            if verbose:
                print(*chaos.log, sep="\n")
        except Exception:
            print(f"seed {seed}")
            raise
    if dangers["mesh"] and not carried:
        # Nothing is shown by runs in which all events came another way.
        failed += 1
        print("the mesh has brought no event in these runs")
    print(f"{last + 1 - first} runs, {failed} failed")
    sys.exit(bool(failed))


for field in attrs.fields(FaultOptions):
    main = click.option(f"--{field.name}", is_flag=True)(main)

if __name__ == "__main__":
    main()
