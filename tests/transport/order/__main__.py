"""Schedules of many seeds: `python -m tests.transport.order FIRST LAST [--variant NAME] ...`."""

from __future__ import annotations

import os
import sys
import time

import click

from broker.testing.order.simulation import Simulation
from broker.testing.order.trace import Trace, shrink
from broker.transport.order import VARIANTS


@click.command()
@click.argument("first", type=int)
@click.argument("last", type=int)
@click.option("--variant", "variants", type=click.Choice([*VARIANTS]), multiple=True)
def main(first: int, last: int, variants: tuple[str, ...]) -> None:
    """Check the seeds FIRST to LAST of variants; exit with status 1 if a property is violated."""
    if sys.flags.hash_randomization:
        # The order of sets depends on the hash seed.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, sys.orig_argv)
    failed = 0
    for variant in variants or VARIANTS:
        begin = time.perf_counter()
        for seed in range(first, last + 1):
            trace = run_seed(variant, seed)
            if trace is not None:
                failed += 1
                print(f"{variant}, seed {seed}:", *trace.lines(), sep="\n", flush=True)
        rate = (last + 1 - first) / (time.perf_counter() - begin)
        print(f"{variant}: {last + 1 - first} schedules, {rate:.1f} a second", flush=True)
    sys.exit(bool(failed))


def run_seed(variant: str, seed: int) -> Trace | None:
    return shrink(lambda actions: Simulation(VARIANTS[variant], seed, actions=actions))


if __name__ == "__main__":
    main()
