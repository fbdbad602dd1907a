"""`xmlbroker status`: what a node is doing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from broker.cli.node_access import NodeAccess, node_options
from broker.cli.overview import durable_table, link_tables, overview
from broker.cli.rendering import clock_time
from broker.cli.sampling import Sample, lags_of, sample_all, watching
from broker.cli.terminal import console, json_line, on_terminal, one_line

if TYPE_CHECKING:
    from rich.table import Table


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.  [default in a pipe]")
@node_options
def command(access: NodeAccess, as_json: bool) -> None:
    """Show a node's log, what became of events, its network, what each type costs, its sessions.

    With several --node each is asked, and they are shown side by side; a node that can not be
    reached has a row too, and the exit status is 1.
    """
    if len(access.endpoints) > 1:
        _several(access, as_json or not on_terminal())
        return
    status = access.ask("status")
    if as_json or not on_terminal():
        click.echo(json_line(status))
        return
    screen = console()
    for table in tables(status):
        screen.print(table)


def _several(access: NodeAccess, as_json: bool) -> None:
    async def ask() -> list[Sample]:
        async with watching(access, access.timeout) as nodes:
            return await sample_all(nodes)

    samples = asyncio.run(ask())
    if as_json:
        for sample in samples:
            click.echo(json_line(sample.plain()))
    else:
        screen = console()
        for table in overview(samples, [{} for _ in samples]):
            screen.print(table)
    if any(sample.status is None for sample in samples):
        raise SystemExit(1)


def tables(status: Mapping[str, Any]) -> Iterable[Table]:
    """The answer of a node as tables. A later version's further keys are shown as they are."""
    log, memory = status.get("log", {}), status.get("memory", {})
    shown = {"memory", "log", "published", "delivered", "network", "types", "sessions"}
    shown |= {"recovery", "durable", "dtds"}
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
    if isinstance(status.get("network"), Mapping):
        yield from _network(status)
    if isinstance(status.get("recovery"), Mapping):
        yield _recovery(status["recovery"])
    lags = list(lags_of(status))
    if lags:
        yield durable_table(lags)
    if isinstance(status.get("dtds"), Mapping):
        yield _dtds(status["dtds"])
    if status.get("types"):
        yield _types(status["types"])
    yield _sessions(status.get("sessions", ()))


def _network(status: Mapping[str, Any]) -> Iterable[Table]:
    """What the node says of its network: a line for each part, and its links."""
    network = status["network"]
    lines = {}
    for key, value in network.items():
        if key == "links":
            continue
        if key == "members":
            value = ", ".join(map(_member, value))
        elif key == "units":
            value = "; ".join(map(_unit, value))
        elif isinstance(value, list | tuple):
            value = ", ".join(map(str, value))
        lines[_words(key)] = "-" if value in (None, "") else _quantity(key, value)
    yield _pairs("Network", lines)
    yield from link_tables(status)


def _recovery(recovery: Mapping[str, Any]) -> Table:
    """The archive, the process that searches it, and what became of recoveries."""
    lines: dict[str, str] = {}
    for part, told in recovery.items():
        if not isinstance(told, Mapping):
            lines[_words(part)] = "-" if told is None else _flat(told)
            continue
        for key, value in told.items():
            if isinstance(value, list | tuple):
                value = "; ".join(map(str, value))
            quantity = _quantity(f"_{key}" if key == "bytes" else key, value)
            lines[f"{_words(part)}: {_words(key)}"] = "-" if value in (None, "") else quantity
    return _pairs("Recovery", lines)


def _member(member: Mapping[str, Any]) -> str:
    states = {"unreachable": not member.get("reachable"), "draining": member.get("draining")}
    said = [name for name, holds in states.items() if holds]
    return f"{member.get('node')}" + (f" ({', '.join(said)})" if said else "")


def _unit(unit: Mapping[str, Any]) -> str:
    gateways = [f"{each.get('near')} - {each.get('far')}" for each in unit.get("gateways", ())]
    known = "" if unit.get("wants_known") else ", wants not known"
    over = f", gateways {', '.join(gateways)}" if gateways else ""
    return f"{unit.get('unit')} by {unit.get('next_hop')}{over}{known}"


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


def _dtds(dtds: Mapping[str, Any]) -> Table:
    """What is stored and awaited; of a name with several texts, which origins use which."""
    lines = {_words(k): _quantity(k, v) for k, v in dtds.items() if k != "conflicts"}
    for conflict in dtds.get("conflicts", ()):
        texts = conflict.get("texts", {})
        lines[one_line(f"{conflict.get('type')} has {len(texts)} texts")] = "; ".join(
            one_line(f"{content_hash[:12]} of {', '.join(origins)}")
            for content_hash, origins in texts.items()
        )
    return _pairs("DTDs", lines)


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
