"""`xmlbroker status`: what a node is doing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from broker.cli.node_access import NodeAccess, node_options
from broker.cli.rendering import clock_time
from broker.cli.terminal import console, json_line, on_terminal, one_line

if TYPE_CHECKING:
    from rich.table import Table


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.  [default in a pipe]")
@node_options
def command(access: NodeAccess, as_json: bool) -> None:
    """Show a node's log, what became of events, what each type costs, and its sessions."""
    status = access.ask("status")
    if as_json or not on_terminal():
        click.echo(json_line(status))
        return
    screen = console()
    for table in tables(status):
        screen.print(table)


def tables(status: Mapping[str, Any]) -> Iterable[Table]:
    """The answer of a node as tables. A later version's further keys are shown as they are."""
    log, memory = status.get("log", {}), status.get("memory", {})
    shown = {"memory", "log", "published", "delivered", "types", "sessions"}
    started = status.get("started_ms")
    yield _pairs(
        "Node",
        {
            **{
                _words(key): _flat(value)
                for key, value in status.items()
                if key not in shown and key != "started_ms"
            },
            **({"started": clock_time(started)} if isinstance(started, int) else {}),
            **{_words(key): _quantity(key, value) for key, value in memory.items()},
        },
    )
    yield _pairs("Log", {_words(key): _quantity(key, value) for key, value in log.items()})
    for key in ("published", "delivered"):
        yield _pairs(f"Events {key}", {_words(k): _flat(v) for k, v in status.get(key, {}).items()})
    if status.get("types"):
        yield _types(status["types"])
    yield _sessions(status.get("sessions", ()))


def _pairs(title: str, rows: Mapping[str, str]) -> Table:
    table = _table(title)
    table.add_column("")
    table.add_column("", justify="right")
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _sessions(sessions: Iterable[Mapping[str, Any]]) -> Table:
    table = _table("Sessions")
    for name in ("client", "account", "from", "connected", "queued", "subscriptions"):
        table.add_column(name, justify="right" if name == "queued" else "left")
    for session in sessions:
        subscriptions = [
            (f"{feed.get('durable')}: " if feed.get("durable") else "")
            + ", ".join(
                f"{_words(key)} {_flat(value)}"
                for key, value in feed.items()
                if key not in ("number", "durable")
            )
            for feed in session.get("subscriptions", ())
        ]
        table.add_row(
            one_line(f"{session.get('client')}/{session.get('incarnation')}"),
            one_line(str(session.get("account") or "-")),
            one_line(str(session.get("peer") or "-")),
            "yes" if session.get("connected") else "no",
            f"{session.get('queued_events', 0):,}",
            "\n".join(map(one_line, subscriptions)) or "-",
        )
    return table


def _types(types: Iterable[Mapping[str, Any]]) -> Table:
    table = _table("Types")
    counts = ("shapes", "recognised", "parsed", "refused", "undecided")
    spent = ("recognised", "undecided", "parsed")
    for name in ("type", *counts, *(f"{path} s" for path in spent)):
        table.add_column(name, justify="left" if name == "type" else "right")
    for each in types:
        name = f"{each.get('type')} {each.get('version')}" if each.get("type") else "(of no known)"
        table.add_row(
            one_line(name) + (" (suspended)" if each.get("suspended") else ""),
            *(f"{each.get(count, 0):,}" for count in counts),
            *(f"{each.get(f'{path}_seconds', 0.0):,.3f}" for path in spent),
        )
    return table


def _table(title: str) -> Table:
    from rich import box
    from rich.table import Table

    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE,
        show_header=title in ("Sessions", "Types"),
        pad_edge=False,
    )


def _words(key: str) -> str:
    return one_line(str(key).replace("_", " "))


def _quantity(key: str, value: Any) -> str:
    if key.endswith("_bytes") and isinstance(value, int):
        return f"{value / 2**20:,.1f} MiB"
    return _flat(value)


def _flat(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        if isinstance(value, Mapping):
            return ", ".join(f"{_words(k)} {_flat(v)}" for k, v in value.items()) or "-"
        return one_line(str(value))
    return f"{value:,}"
