"""`xmlbroker dtd import`: a DTD from an XML Schema."""

from __future__ import annotations

from pathlib import Path

import click

from broker.cli.dtd_options import type_options, write_output
from broker.cli.failure import Failure
from broker.cli.terminal import print_note
from broker.dtd.derivation.report import report_lines
from broker.dtd.reference import DtdReference
from broker.errors import BadDtd


@click.command("import")
@click.argument(
    "schemas", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SCHEMA.xsd..."
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="NAME",
    help="Root element of payloads, NAME or {URI}NAME; may be repeated.  [default: the only one]",
)
@type_options(required=True)
def import_(schemas: tuple[Path, ...], roots: tuple[str, ...], type_: str, version: str) -> None:
    """Translate an XML Schema into a DTD, and report on stderr what the DTD can not say.

    Each document that the schema accepts is accepted by the DTD. Only the given files are read, and
    the *.xsd files below given folders: give those that the schema includes and imports too. No
    node is asked, and no network.
    """
    # The library is loaded for this command only.
    from broker.dtd.derivation.schema_files import list_schema_files, load_schema
    from broker.dtd.derivation.schema_translation import find_roots, translate_schema

    reference = DtdReference(type_, version)
    try:
        schema, remarks = load_schema(list_schema_files(schemas), roots)
        for remark in remarks:
            print_note(f"warning: {remark}")
        derivation, written = translate_schema(schema, find_roots(schema, roots), reference)
    except BadDtd as error:
        raise Failure(error.text) from None
    for line in report_lines(derivation, written.widened):
        print_note(line)
    write_output(written.text)
