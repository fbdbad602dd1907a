"""`xmlbroker status`: the state of a node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import click

from broker.cli.event_format import clock_time
from broker.cli.node_access import NodeAccess, node_options
from broker.cli.node_sample import Sample, lags_of, take_samples, watch_nodes
from broker.cli.overview import durable_table, link_tables, overview_tables
from broker.cli.terminal import echo, is_terminal, json_line, make_console, one_line

if TYPE_CHECKING:
    from rich.table import Table


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.  [default in a pipe]")
@node_options
def command(access: NodeAccess, as_json: bool) -> None:
    """Show a node's log, event outcomes, network, types with their cost, and sessions.

    With several --node they are shown side by side. An unreachable node has a row, too, and the
    exit status is 1.
    """
    if len(access.endpoints) > 1:
        _show_several(access, as_json or not is_terminal())
        return
    status = access.ask("status")
    if as_json or not is_terminal():
        echo(json_line(status))
        return
    screen = make_console()
    for table in status_tables(status):
        screen.print(table)


def _show_several(access: NodeAccess, as_json: bool) -> None:
    async def ask() -> list[Sample]:
        async with watch_nodes(access, access.timeout) as nodes:
            return await take_samples(nodes)

    samples = asyncio.run(ask())
    if as_json:
        for sample in samples:
            echo(json_line(sample.to_json()))
    else:
        screen = make_console()
        for table in overview_tables(samples, [{} for _ in samples]):
            screen.print(table)
    if any(sample.status is None for sample in samples):
        raise SystemExit(1)


def status_tables(status: Mapping[str, Any]) -> Iterable[Table]:
    """Yield the tables of an answer, with unknown keys of a later version."""
    log, memory = status.get("log", {}), status.get("memory", {})
    shown = {"memory", "log", "published", "delivered", "network", "types", "sessions"}
    shown |= {"recovery", "durable", "dtds", "stacks", "limits", "inputs"}
    started = status.get("started_ms")
    yield _pairs_table(
        "Node",
        {
            **{
                _key_words(key): _format_value(value)
                for key, value in status.items()
                if key not in shown and key != "started_ms"
            },
            **({"started": clock_time(started)} if isinstance(started, int) else {}),
            **{_key_words(key): _format_quantity(key, value) for key, value in memory.items()},
        },
    )
    yield _pairs_table(
        "Log", {_key_words(key): _format_quantity(key, value) for key, value in log.items()}
    )
    for key in ("published", "delivered"):
        yield _pairs_table(
            f"Events {key}",
            {_key_words(k): _format_value(v) for k, v in status.get(key, {}).items()},
        )
    if isinstance(status.get("network"), Mapping):
        yield from _network_tables(status)
    for stack in status.get("stacks", ()):
        yield _stack_table(stack)
    if isinstance(status.get("recovery"), Mapping):
        yield _recovery_table(status["recovery"])
    lags = list(lags_of(status))
    if lags:
        yield durable_table(lags)
    if status.get("inputs"):
        yield _inputs_table(status["inputs"])
    if isinstance(status.get("dtds"), Mapping):
        yield _dtds_table(status["dtds"])
    if status.get("types"):
        yield _types_table(status["types"])
    if status.get("limits"):
        yield _limits_table(status["limits"])
    yield _sessions_table(status.get("sessions", ()))


def _network_tables(status: Mapping[str, Any]) -> Iterable[Table]:
    network = status["network"]
    lines = {}
    for key, value in network.items():
        if key == "links":
            continue
        if key == "members":
            value = ", ".join(map(_format_member, value))
        elif key == "units":
            value = "; ".join(map(_format_unit, value))
        elif isinstance(value, list | tuple):
            value = ", ".join(map(str, value))
        lines[_key_words(key)] = "-" if value in (None, "") else _format_quantity(key, value)
    yield _pairs_table("Network", lines)
    yield from link_tables(status)


def _stack_table(stack: Mapping[str, Any]) -> Table:
    lines: dict[str, str] = {}
    for key, value in stack.items():
        words = _key_words(key)
        if _is_list_of_mappings(value):
            lines |= {
                f"{words}: {label}": _format_value(rest)
                for label, rest in (_split_label(*item) for item in enumerate(value, 1))
            }
            continue
        if isinstance(value, list | tuple):
            value = ", ".join(map(str, value))
        if key != "name":
            lines[words] = "-" if value in (None, "") else _format_quantity(key, value)
    return _pairs_table(f"Stack {stack.get('name')}", lines)


def _is_list_of_mappings(value: Any) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(each, Mapping) for each in value)
    )


def _split_label(number: int, item: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the item's first value if that is a name, else its number, and the other values."""
    first = next(iter(item), "")
    if isinstance(item.get(first), str):
        return one_line(item[first]), {key: item[key] for key in item if key != first}
    return str(number), item


def _recovery_table(recovery: Mapping[str, Any]) -> Table:
    lines: dict[str, str] = {}
    for part, values in recovery.items():
        if not isinstance(values, Mapping):
            lines[_key_words(part)] = "-" if values is None else _format_value(values)
            continue
        for key, value in values.items():
            if isinstance(value, list | tuple):
                value = "; ".join(map(str, value))
            quantity = _format_quantity(f"_{key}" if key == "bytes" else key, value)
            lines[f"{_key_words(part)}: {_key_words(key)}"] = (
                "-" if value in (None, "") else quantity
            )
    return _pairs_table("Recovery", lines)


def _format_member(member: Mapping[str, Any]) -> str:
    states = {"unreachable": not member.get("reachable"), "draining": member.get("draining")}
    flags = [name for name, holds in states.items() if holds]
    return f"{member.get('node')}" + (f" ({', '.join(flags)})" if flags else "")


def _format_unit(unit: Mapping[str, Any]) -> str:
    gateways = [f"{each.get('near')} - {each.get('far')}" for each in unit.get("gateways", ())]
    known = "" if unit.get("wants_known") else ", interest not known"
    over = f", gateways {', '.join(gateways)}" if gateways else ""
    return f"{unit.get('unit')} via {unit.get('next_hop')}{over}{known}"


def _pairs_table(title: str, rows: Mapping[str, str]) -> Table:
    table = _make_table(title)
    table.add_column("")
    table.add_column("", justify="right")
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _sessions_table(sessions: Iterable[Mapping[str, Any]]) -> Table:
    table = _make_table("Sessions")
    for name in ("client", "account", "from", "connected", "queued", "subscriptions"):
        table.add_column(name, justify="right" if name == "queued" else "left")
    for session in sessions:
        subscriptions = [
            (f"{feed.get('durable')}: " if feed.get("durable") else "")
            + ", ".join(
                f"{_key_words(key)} {_format_value(value)}"
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


def _types_table(types: Iterable[Mapping[str, Any]]) -> Table:
    table = _make_table("Types")
    counts = ("shapes", "recognised", "parsed", "refused", "undecided")
    spent = ("recognised", "undecided", "parsed")
    for name in ("type", *counts, *(f"{path} s" for path in spent)):
        table.add_column(name, justify="left" if name == "type" else "right")
    for each in types:
        name = f"{each.get('type')} {each.get('version')}" if each.get("type") else "(unknown)"
        table.add_row(
            one_line(name) + (" (suspended)" if each.get("suspended") else ""),
            *(f"{each.get(count, 0):,}" for count in counts),
            *(f"{each.get(f'{path}_seconds', 0.0):,.3f}" for path in spent),
        )
    return table


def _inputs_table(inputs: Iterable[Mapping[str, Any]]) -> Table:
    table = _make_table("Inputs")
    counts = ("found", "known", "sent", "durable", "refused", "restarts")
    for name in ("input", "process", *counts, "last error"):
        table.add_column(name, justify="right" if name in counts else "left")
    for each in inputs:
        pid = each.get("pid")
        table.add_row(
            one_line(str(each.get("name"))),
            "not running" if pid is None else str(pid),
            *(_format_value(each.get(count, 0)) for count in counts),
            one_line(str(each.get("last_error") or "-")),
        )
    return table


def _limits_table(limits: Iterable[Mapping[str, Any]]) -> Table:
    """Limits, the one that is used most in proportion first."""
    table = _make_table("Limits")
    for name in ("limit", "per", "used", "bound", "reached", "setting"):
        is_number = name in ("used", "bound", "reached")
        table.add_column(name, justify="right" if is_number else "left")
    for each in sorted(limits, key=_used_share, reverse=True):
        table.add_row(
            *(one_line(str(each.get(key, ""))) for key in ("name", "per")),
            *(_format_value(each.get(key, 0)) for key in ("used", "bound", "reached")),
            one_line(str(each.get("setting") or "-")),
        )
    return table


def _used_share(limit: Mapping[str, Any]) -> float:
    return float(limit.get("used", 0)) / (float(limit.get("bound", 0)) or 1.0)


def _dtds_table(dtds: Mapping[str, Any]) -> Table:
    """Several texts of a name have their origins."""
    lines = {_key_words(k): _format_quantity(k, v) for k, v in dtds.items() if k != "conflicts"}
    for conflict in dtds.get("conflicts", ()):
        texts = conflict.get("texts", {})
        lines[one_line(f"{conflict.get('type')} has {len(texts)} texts")] = "; ".join(
            one_line(f"{content_hash[:12]} of {', '.join(origins)}")
            for content_hash, origins in texts.items()
        )
    return _pairs_table("DTDs", lines)


def _make_table(title: str) -> Table:
    from rich import box
    from rich.table import Table

    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE,
        show_header=title in ("Sessions", "Types", "Limits", "Inputs"),
        pad_edge=False,
    )


def _key_words(key: str) -> str:
    return one_line(str(key).replace("_", " "))


def _format_quantity(key: str, value: Any) -> str:
    if key.endswith("_bytes") and isinstance(value, int):
        return f"{value / 2**20:,.1f} MiB"
    return _format_value(value)


def _format_value(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        if _is_list_of_mappings(value):
            return "; ".join(map(_format_value, value))
        if isinstance(value, Mapping):
            return ", ".join(f"{_key_words(k)} {_format_value(v)}" for k, v in value.items()) or "-"
        return one_line(str(value))
    return f"{value:,}"
