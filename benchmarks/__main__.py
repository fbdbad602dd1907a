"""`python -m benchmarks [NAME...]`: run benchmarks, print tables, write files."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from benchmarks.harness.children import Children
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.idle_machine import MAX_OTHER_CORES, wait_until_idle
from benchmarks.harness.machine import describe_machine
from benchmarks.harness.report import WIDTH, Report, print_report, write_report
from benchmarks.harness.signals import end_on_signals
from benchmarks.harness.speed import measure_parse
from broker.errors import BrokerError

#: In order; each module has `DESCRIPTION` and `run`.
NAMES: Final = (
    "node",
    "latency",
    "logins",
    "path",
    "memory",
    "reload",
    "content",
    "feeds",
    "links",
    "group",
    "line",
    "network",
    "archive",
    "ingest",
    "replay",
    "recover",
    "jetstream",
    "rcm",
    "dcp",
)
#: In seconds, before each benchmark.
IDLE_TIMEOUT: Final = 60.0
RESULTS: Final = Path(__file__).parent / "results"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice(NAMES), metavar="[NAME]...")
@click.option("--list", "listing", is_flag=True, help="List the benchmarks, and do nothing.")
@click.option("--quick", is_flag=True, help="A short run that only shows that it works.")
@click.option(
    "--events",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Number of events in `archive`, `replay`, `recover`, `jetstream` and a run of `ingest`; "
    "0: each benchmark's own number.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=RESULTS,
    show_default="benchmarks/results",
    help="The folder for NAME.json and NAME.png.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=tempfile.gettempdir(),
    show_default=True,
    help="Folder of the nodes' logs, on the disk to be measured.",
)
def main(
    names: tuple[str, ...], listing: bool, quick: bool, events: int, results: Path, data: Path
) -> None:
    """Measure this machine: all benchmarks, or those NAMEd."""
    modules = {name: importlib.import_module(f"benchmarks.{name}") for name in names or NAMES}
    if listing:
        for name, module in modules.items():
            click.echo(f"{name:13}{module.DESCRIPTION}")
        return
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, emoji=False, width=WIDTH)
    end_on_signals()
    here = describe_machine(data)
    console.print(_headline(here))
    if here["file_system"] == "tmpfs":
        console.print(f"{data} is in memory: nothing is durable there; see --data")
    try:
        for name, module in modules.items():
            report = _run_benchmark(module.run, data, quick, events, name)
            print_report(report, console, quick=quick)
            written = write_report(report, results, here, quick=quick)
            console.print(f"- written: {', '.join(map(str, written))}")
            if len(written) == 1:
                console.print("- no plot: matplotlib is not installed (`./dev bench` does it)")
    except (BenchmarkFailed, BrokerError, OSError) as error:
        raise click.ClickException(f"{name}: {error}") from None


def _run_benchmark(
    run: Callable[[BenchmarkContext], Report], data: Path, quick: bool, events: int, name: str
) -> Report:
    progress = Console(stderr=True)
    # No thread may run when children are started.
    with Live(console=progress, auto_refresh=False, transient=True) as live, Children() as children:

        def say(text: str) -> None:
            if progress.is_terminal:
                live.update(Text(f"{name}: {text}"), refresh=True)

        context = BenchmarkContext(children, data, quick, say, events)
        others = 0.0 if quick else wait_until_idle(IDLE_TIMEOUT, context.report_progress)
        before = measure_parse()
        report = run(context)
        after = measure_parse()
    report.figures["parse_microseconds"] = {"before": before, "after": after}
    report.notes.append(
        f"lxml parsed one event in {before:.1f} us before this and in {after:.1f} us after it"
    )
    if others > MAX_OTHER_CORES:
        report.notes.append(
            f"the machine was not idle at the start: other processes used {others:.1f} cores"
        )
    return report


def _headline(here: dict[str, object]) -> str:
    return (
        f"{here['processor']}, {here['cores']} cores; Python {here['python']}, "
        f"Twisted {here['twisted']}, libxml2 {here['libxml2']}; logs on {here['file_system']}; "
        f"load {here['load']:.2f}"
    )


if __name__ == "__main__":
    main()
