"""`xmlbroker dtd`: the DTDs of a node, and checks of a DTD file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from broker.cli.dtd_check import CheckCounts, check_events, load_dtd_file
from broker.cli.dtd_import import import_
from broker.cli.dtd_infer import infer
from broker.cli.dtd_options import type_options
from broker.cli.dtd_report import report_lines
from broker.cli.failure import Failure
from broker.cli.node_access import NodeAccess, node_options
from broker.cli.publishing.collection_splitter import Split
from broker.cli.publishing.split_options import split_option
from broker.cli.terminal import echo, one_line, print_note
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference

_local = click.option("--local", is_flag=True, help="Use the shipped catalogue; ask no node.")


@click.group(no_args_is_help=True)
def command() -> None:
    """List and show the DTDs of event types; infer, import, check and register one of your own."""


command.add_command(infer)
command.add_command(import_)


@command.command("list")
@_local
@node_options
def list_(access: NodeAccess, local: bool) -> None:
    """List the event types of the node, one TYPE and VERSION a line."""
    if local:
        catalogue = Catalogue.load(shipped_folder())
        known = [(each.type, each.version) for each in catalogue.references()]
    else:
        known = [(str(name), str(version)) for name, version in access.ask("dtd-list")]
    for name, version in known:
        echo(one_line(f"{name} {version}"))


@command.command()
@click.argument("type_", metavar="TYPE")
@click.argument("version")
@_local
@node_options
def show(access: NodeAccess, type_: str, version: str, local: bool) -> None:
    """Print the DTD of an event type, with everything that it includes."""
    reference = DtdReference(type_, version)
    if not local:
        echo(access.ask("dtd-show", type=type_, version=version), nl=False)
        return
    catalogue = Catalogue.load(shipped_folder())
    text = catalogue.read(reference.public_id, reference.system_id)
    if text is None:
        raise Failure(
            f"no DTD of {reference} is shipped; `xmlbroker dtd list --local` lists the shipped ones"
        )
    echo(Dtd.load(reference, text, catalogue.read).text.decode(), nl=False)


_file = click.argument("file", type=click.Path(path_type=Path), metavar="FILE.dtd")


_schemas = click.option(
    "--schema",
    "schemas",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="SCHEMA.xsd",
    help="XML Schema of payloads, first the main file, then those that it names; may be a folder.",
)


@command.command()
@_file
@_schemas
@click.argument("events", nargs=-1, metavar="[EVENT.xml]...")
@type_options()
@click.option(
    "--against",
    metavar="VERSION",
    help="Compare with this version at the node, and list affected subscriptions.",
)
@split_option
@node_options
def check(
    access: NodeAccess,
    file: Path,
    schemas: tuple[Path, ...],
    events: tuple[str, ...],
    type_: str | None,
    version: str | None,
    against: str | None,
    split: Split | None,
) -> None:
    """Load a DTD as a node would, and validate events against it.

    An EVENT.xml holds any number of whole events or bare payloads; - reads a pipe. Modules are
    looked up in the shipped catalogue, then in that of the file's folder. No node is asked without
    --against.
    """
    dtd = load_dtd_file(file, type_, version, schemas)
    counts = CheckCounts()
    for problem in check_events(dtd, events, counts, split):
        echo(problem, err=True)
    kind = "a DTD" if dtd.schema is None else "a DTD and a schema"
    print_note(
        f"{file}: {kind} for {dtd.reference}; {counts.valid} of {counts.events} events are valid"
    )
    if against is not None:
        for line in report_lines(_ask_about_dtd(access, "dtd-check", dtd, against)):
            echo(line)
    if counts.valid != counts.events:
        sys.exit(1)


@command.command()
@_file
@_schemas
@type_options()
@click.option(
    "--against",
    metavar="VERSION",
    default="",
    help="The version to compare with.  [default: the newest older version at the node]",
)
@node_options
def add(
    access: NodeAccess,
    file: Path,
    schemas: tuple[Path, ...],
    type_: str | None,
    version: str | None,
    against: str,
) -> None:
    """Register a DTD at the node, and through it in the network, before the first event.

    Prints the changes against an older version and the affected subscriptions; their clients are
    notified. The account needs the right to register the type.
    """
    dtd = load_dtd_file(file, type_, version, schemas)
    report = _ask_about_dtd(access, "dtd-add", dtd, against)
    for line in report_lines(report):
        echo(line)
    state = "is registered" if report["registered"] else "was registered already"
    print_note(f"{dtd.reference} {state} (content {dtd.content_hash[:12]})")


def _ask_about_dtd(access: NodeAccess, what: str, dtd: Dtd, against: str) -> Any:
    reference = dtd.reference
    named = {"type": reference.type, "version": reference.version, "against": against}
    return access.ask(what, dtd.text, **named)
