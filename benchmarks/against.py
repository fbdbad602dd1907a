"""`python -m benchmarks.against REVISION [NAME...]`: compare the cost of an event.

The benchmarks of an earlier revision and of this tree run in turn on one machine, with the same
packages. `archive` is that of this tree for both. The order alternates between rounds. A cost is
processor time for an event, the figure least disturbed by other processes.
"""

from __future__ import annotations

import io
import json
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from benchmarks.costs import READERS, costs, ratio
from benchmarks.harness.actor import ROOT
from benchmarks.harness.children import Children
from benchmarks.harness.machine import describe_machine
from benchmarks.harness.report import WIDTH, Floor, Report, Sheet, print_report, write_report
from benchmarks.harness.signals import end_on_signals

#: Of the present to the earlier cost.
MAX_RATIO: Final = 1.08
#: Files of this tree that replace those of the earlier one: what they measure is no figure there.
SHARED_FILES: Final = tuple(
    f"benchmarks/{name}.py" for name in ("archive", "archive_report", "workloads/signed_events")
)
#: In microseconds for an event, by work.
Costs = dict[str, list[float]]


@click.command(help=__doc__)
@click.argument("revision")
@click.argument("names", nargs=-1, type=click.Choice(tuple(READERS)), metavar="[NAME]...")
@click.option("--rounds", default=1, show_default=True, help="Runs of each benchmark and revision.")
@click.option("--events", default=0, help="Events in `archive` and a run of `ingest`.")
@click.option("--quick", is_flag=True, help="A short run that only shows that it works.")
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(__file__).parent / "results",
    show_default="benchmarks/results",
    help="The folder for against.json and against.png.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=tempfile.gettempdir(),
    show_default=True,
    help="The folder of the nodes' logs.",
)
def main(
    revision: str,
    names: tuple[str, ...],
    rounds: int,
    events: int,
    quick: bool,
    results: Path,
    data: Path,
) -> None:
    """Compare, print the table, and exit with 1 if the present tree costs too much."""
    end_on_signals()
    options = ["--data", str(data), "--events", str(events), *(["--quick"] if quick else [])]
    found: dict[str, tuple[Costs, Costs]] = {}
    with tempfile.TemporaryDirectory(prefix="xmlbroker-bench-") as name, Children() as children:
        earlier = Path(name) / "tree"
        _unpack(revision, earlier)
        for benchmark in names or READERS:
            then: Costs = {}
            now: Costs = {}
            for turn in range(rounds):
                turns = [(earlier, then), (ROOT, now)]
                for tree, into in turns if turn % 2 == 0 else reversed(turns):
                    _run(children, tree, benchmark, options, into)
            found[benchmark] = (then, now)
    report = compare(revision, found)
    console = Console(highlight=False, markup=False, emoji=False, width=WIDTH)
    print_report(report, console, quick=quick)
    write_report(report, results, describe_machine(data), quick=quick)
    if not quick and not all(floor.is_met for floor in report.floors):
        sys.exit(1)


def compare(revision: str, found: dict[str, tuple[Costs, Costs]]) -> Report:
    rows, floors, figures = [], [], {}
    for benchmark, (then, now) in found.items():
        works = {work: ratio(then[work], now[work]) for work in then if work in now}
        for work, value in works.items():
            before, after = statistics.median(then[work]), statistics.median(now[work])
            label = f"{benchmark}: {work}"
            rows.append([label, f"{before:.1f}", f"{after:.1f}", f"{value:.3f}"])
            figures[label] = {"earlier": then[work], "present": now[work], "ratio": value}
        middle = statistics.median(works.values())
        what = f"{benchmark}: cost of an event, median of its works"
        floors.append(Floor(what, middle, MAX_RATIO, "times", at_least=False))
    return Report(
        name="against",
        sheets=[
            Sheet(
                f"Processor time for an event, against {revision}",
                ["work", "earlier us", "present us", "present / earlier"],
                rows,
            )
        ],
        floors=floors,
        notes=[f"both ran in turns on one machine; {len(rows)} works, medians of all their runs"],
        figures={"revision": revision, "works": figures},
        draw=lambda figure: _draw(rows, figure),
    )


def _draw(rows: list[list[str]], figure: object) -> None:
    axes = figure.subplots()  # type: ignore[attr-defined]
    axes.barh([row[0] for row in rows], [float(row[3]) for row in rows])
    axes.axvline(MAX_RATIO, color="tab:red", linestyle="--", label="most")
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=6)
    axes.set_xlabel("processor time for an event, present / earlier")
    axes.legend()


def _unpack(revision: str, folder: Path) -> None:
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", revision],
        capture_output=True,
        check=False,
    )
    if packed.returncode:
        raise click.ClickException(packed.stderr.decode(errors="replace").strip())
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    for path in SHARED_FILES:
        shutil.copy(ROOT / path, folder / path)
    # They lie beside the checkout.
    if (shared := ROOT.parent / "shared").is_dir():
        (folder.parent / "shared").symlink_to(shared)


def _run(children: Children, tree: Path, benchmark: str, options: list[str], into: Costs) -> None:
    results = tree.parent / "results"
    print(f"{benchmark} of {'this tree' if tree == ROOT else 'the earlier one'}", file=sys.stderr)
    process = children.start(
        [sys.executable, "-m", "benchmarks", benchmark, "--results", str(results), *options],
        folder=tree,
        environment={"PYTHONPATH": str(tree)},
    )
    if status := process.wait():
        raise click.ClickException(f"{benchmark} of {tree} ended with status {status}")
    figures = json.loads((results / f"{benchmark}.json").read_text())
    for work, values in costs(benchmark, figures).items():
        into.setdefault(work, []).extend(values)


if __name__ == "__main__":
    main()
