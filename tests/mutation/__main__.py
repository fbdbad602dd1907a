"""`./dev mutate`: small changes of the code, each of which some test should notice.

Arguments are groups of docs/mutation.md or paths of their modules; without any, all groups run.
Survivors and a table are printed. The exit status is 1 if a mutant survived that
`tests/mutation/equivalent.txt` does not list, or if that lists one that does not exist.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import attrs
import click

from tests.mutation.equivalent import Equivalents
from tests.mutation.groups import GROUPS, ROOT, Group
from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.named import named_mutants
from tests.mutation.trial import Trial


@attrs.define
class Count:
    """Results of a group's mutants."""

    mutants: int = 0
    killed: int = 0
    equivalent: int = 0
    survived: int = 0
    stale: int = 0
    """Listed mutants that do not exist."""


@click.command(help=__doc__)
@click.option("--share", default=None, type=float, help="Try this fraction of all mutants.")
@click.argument("names", nargs=-1)
def main(share: float | None, names: tuple[str, ...]) -> None:
    counts: dict[str, Count] = {}
    known = {str(path.relative_to(ROOT)) for group in GROUPS for path in group.paths()}
    if absent := Equivalents.read().paths - known:
        sys.exit(f"tests/mutation/equivalent.txt lists mutants of {', '.join(sorted(absent))}")
    if not names or "named" in names:
        counts["named"] = _try_named()
    for group in GROUPS:
        modules = [
            path
            for path in group.paths()
            if not names or group.name in names or str(path.relative_to(ROOT)) in names
        ]
        if modules:
            counts[group.name] = _try(group, modules, group.share if share is None else share)
    if not counts:
        raise click.BadParameter(f"there are {', '.join(group.name for group in GROUPS)}")
    print("| modules | mutants | killed | equivalent | survived |\n|---|---|---|---|---|")
    for name, count in counts.items():
        print(
            f"| {name} | {count.mutants} | {count.killed} | {count.equivalent} | {count.survived} |"
        )
    if not all(count.mutants for count in counts.values()):
        sys.exit("a group without a mutant: nothing was tried")
    sys.exit(1 if any(count.survived or count.stale for count in counts.values()) else 0)


def _try_named() -> Count:
    named = list(named_mutants())
    print(f"named: {len(named)} mutants", flush=True)
    trial = Trial(
        list({mutant.path: None for mutant, _ in named}), tuple({test: None for _, test in named})
    )
    count = Count()
    for mutant, test in named:
        _count(count, mutant, trial.survives(mutant, [test]), f"by {test}")
    trial.close()
    return count


def _try(group: Group, modules: list[Path], share: float) -> Count:
    started = time.monotonic()
    equivalents = Equivalents.read()
    mutants: list[Mutant] = []
    count = Count()
    for path in modules:
        found = list(mutants_of(path))
        mutants += [each for each in found if group.has(each) and each.is_sampled(share)]
        name = str(path.relative_to(ROOT))
        for key in equivalents.unknown(name, (each.key for each in found)):
            count.stale += 1
            print(f"listed, and no mutant: {name} {key}")
    print(f"{group.name}: {len(mutants)} mutants of {len(modules)} modules", flush=True)
    trial = Trial(modules, group.tests)
    print(f"  {len(trial.runs.seconds)} tests, {time.monotonic() - started:.0f} s", flush=True)
    for mutant in mutants:
        tests = trial.runs.tests_of(mutant)
        survives = trial.survives(mutant, tests) if tests else True
        name = str(mutant.path.relative_to(ROOT))
        if survives and equivalents.has(name, mutant.key):
            count.mutants += 1
            count.equivalent += 1
        else:
            _count(count, mutant, survives, f"by {len(tests)} tests")
    trial.close()
    print(f"  {time.monotonic() - started:.0f} s", flush=True)
    return count


def _count(count: Count, mutant: Mutant, survives: bool | None, how: str) -> None:
    if survives is None:
        return
    count.mutants += 1
    if not survives:
        count.killed += 1
        return
    count.survived += 1
    print(f"  {mutant.path.relative_to(ROOT)}:{mutant.line} {mutant.key}", flush=True)
    print(f"    not noticed {how} ({mutant.operator})", flush=True)


if __name__ == "__main__":
    main()
