"""`python -m examples.feeds FOLDER`: write small feeds of public formats, to publish."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from random import Random

import click

from examples.feeds import documents

_SCHEMA = Path(__file__).parent / "cap.xsd"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def main(folder: Path) -> None:
    """Write documents of CAP, SIRI, TFMS, IWXXM, CoT, NITF and GeoJSON below FOLDER.

    They are made up, and the same in each run.
    """
    try:
        write_feeds(folder)
    except OSError as error:
        raise click.ClickException(f"{folder}: {error.strerror or error}") from None
    click.echo(f"{folder}: cap, siri, tfms, iwxxm, cot, nitf and quakes")


def write_feeds(folder: Path) -> None:
    """Write files and folders; those of an earlier run are replaced."""
    chance = Random(1)
    alerts = [documents.alert(chance, number, ("", "cap")[number % 2]) for number in range(20)]
    _write(folder / "cap", (alert + "\n" for alert in alerts))
    (folder / "cap.atom").write_text(
        documents.alert_feed([documents.alert(chance, 100 + number, "c") for number in range(20)])
    )
    shutil.copyfile(_SCHEMA, folder / "cap.xsd")
    (folder / "siri.xml").write_text(documents.vehicles(chance, 40))
    deliveries = (
        documents.flight_messages(chance, 10 * number, 10, swapped=number % 2 == 1)
        for number in range(4)
    )
    _write(folder / "tfms", deliveries)
    prefixes = ("iwxxm", "ns2", "x")
    reports = (documents.metar(chance, number, prefixes[number % 3]) for number in range(30))
    _write(folder / "iwxxm", reports)
    _write(folder / "cot", (documents.cursor(chance, number) for number in range(30)))
    _write(folder / "nitf", (documents.article(chance, number) for number in range(20)))
    (folder / "quakes.geojson").write_text(documents.earthquakes(chance, 12))


def _write(folder: Path, texts: Iterable[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(texts):
        (folder / f"{number:02}.xml").write_text(text)


if __name__ == "__main__":
    main()
