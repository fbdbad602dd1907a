"""Schedules of many seeds: `python -m tests.transport.order FIRST LAST [--variant NAME] ...`."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from multiprocessing import Pool

import click

from broker.testing.order.fan_out import FAN_OUTS, SETTINGS
from broker.testing.order.simulation import Simulation
from broker.testing.order.trace import shrink
from broker.transport.order import VARIANTS


@click.command()
@click.argument("first", type=int)
@click.argument("last", type=int)
@click.option("--variant", "variants", type=click.Choice([*VARIANTS]), multiple=True)
@click.option("--fan-out", type=click.Choice([*FAN_OUTS]), default="copies", show_default=True)
@click.option("--processes", type=int, default=os.cpu_count(), show_default="one for each CPU")
def main(first: int, last: int, variants: tuple[str, ...], fan_out: str, processes: int) -> None:
    """Check the seeds FIRST to LAST of variants; exit with status 1 if a property is violated.

    A violation is printed with the shortest schedule that leads to one.
    """
    if sys.flags.hash_randomization:
        # The order of sets depends on the hash seed.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, sys.orig_argv)
    failed = 0
    with Pool(processes) as pool:
        for variant in variants or VARIANTS:
            begin = time.perf_counter()
            seeds = range(first, last + 1)
            for lines in pool.imap(
                partial(run_seed, variant, fan_out=fan_out), seeds, chunksize=10
            ):
                failed += bool(lines)
                print(*lines, sep="\n", end="\n" if lines else "", flush=True)
            rate = len(seeds) / (time.perf_counter() - begin)
            print(f"{variant}: {len(seeds)} schedules, {rate:.1f} a second", flush=True)
    print(f"{failed} failed")
    sys.exit(bool(failed))


def run_seed(variant: str, seed: int, fan_out: str = "copies") -> list[str]:
    """Return the lines of a trace, or nothing if all properties hold."""
    settings, make = SETTINGS[fan_out], FAN_OUTS[fan_out]
    trace = shrink(
        lambda actions: Simulation(
            VARIANTS[variant], seed, settings=settings, actions=actions, fan_out=make
        )
    )
    return [] if trace is None else [f"{variant}, seed {seed}:", *trace.lines()]


if __name__ == "__main__":
    main()
