"""A mesh as tables, lines and a graph for Graphviz."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import attrs

from broker.cli.mesh_failure import Failure
from broker.cli.mesh_picture import Link, MeshNode, Picture
from broker.cli.overview import make_table
from broker.cli.terminal import one_line

if TYPE_CHECKING:
    from rich.table import Table

_NODE_COLUMNS = ("node", "level", "parents", "children", "resilience", "state")
_LINK_COLUMNS = ("parent", "child", "loss", "round trip", "first", "saved")


def picture_tables(picture: Picture) -> Iterable[Table]:
    yield make_table(f"Mesh {picture.stack}", _NODE_COLUMNS, map(_node_row, picture.nodes.values()))
    yield make_table("Links", _LINK_COLUMNS, (_link_row(*each) for each in picture.links()))


def alarm_lines(picture: Picture) -> Iterator[str]:
    """Yield a line for each alarm, and for nodes that did not answer."""
    for node in picture.nodes.values():
        for alarm in node.alarms:
            yield f"{node.name}: {alarm}"
    if picture.silent:
        yield f"without an answer: {', '.join(picture.silent)}"


def dot_lines(picture: Picture) -> Iterator[str]:
    """Yield the lines of a graph in the language of Graphviz, from the roots down."""
    yield f"digraph {_quote(picture.stack)} {{"
    for node in picture.nodes.values():
        shape = "doublecircle" if node.is_root else "ellipse"
        text = node.name
        if not node.address:
            text += "\nno answer"
        elif not node.is_root:
            text += f"\nlevel {node.level}, resilience {node.resilience}"
        style = ', style="dashed"' if not node.address else ""
        color = ', color="red"' if node.alarms else ""
        yield f'  {_quote(node.name)} [label={_quote(text)}, shape="{shape}"{style}{color}];'
    for child, link in picture.links():
        style = ', style="dashed"' if link.is_leaving else ""
        text = f"{_percent(link.loss)}, {link.round_trip_ms:,.1f} ms"
        ends = f"{_quote(link.parent)} -> {_quote(child.name)}"
        yield f"  {ends} [label={_quote(text)}{style}];"
    yield "}"


def picture_json(picture: Picture) -> dict[str, Any]:
    """Return the picture as plain values."""
    nodes = []
    for node in picture.nodes.values():
        row = attrs.asdict(node)
        for link in row["parents"]:
            link["shared"] = sorted(link["shared"])
        nodes.append(row)
    return {"stack": picture.stack, "nodes": nodes, "silent": list(picture.silent)}


def failure_lines(failure: Failure) -> Iterator[str]:
    """Yield a line for each effect of a failure."""
    yield f"without {', '.join(failure.gone)}:"
    for name in failure.cut_off:
        yield f"  {name} is cut off: it gets events from the log once it has found other parents"
    for name, (before, after) in failure.weakened.items():
        yield f"  {name} falls from resilience {before} to {after}"
    if not failure.cut_off and not failure.weakened:
        yield "  no other node loses events or resilience"
    for key, names in failure.shared.items():
        yield f"  then a failure of {key} would cut off {', '.join(names)}"


def failure_json(failure: Failure) -> dict[str, Any]:
    return attrs.asdict(failure)


def saved_text(link: Link) -> str:
    """Return the losses and the ms of delay that only this parent has saved its child."""
    losses = "1 loss" if link.saved_losses == 1 else f"{link.saved_losses:,} losses"
    return f"{losses}, {link.saved_ms:,.0f} ms"


def _node_row(node: MeshNode) -> list[str]:
    if not node.address:
        return [one_line(node.name), str(node.level), *[""] * 3, "no answer"]
    parents = "root" if node.is_root else f"{len(node.parents)}/{node.wanted_parents}"
    return [
        one_line(node.name),
        str(node.level),
        parents,
        f"{node.children:,}",
        str(node.resilience),
        _state_of(node),
    ]


def _state_of(node: MeshNode) -> str:
    states = ["leaving" if node.children else "left"] if node.has_left else []
    if node.is_moving:
        states.append("changes parents")
    if node.alarms:
        states.append("1 alarm" if len(node.alarms) == 1 else f"{len(node.alarms)} alarms")
    return ", ".join(states) or "up"


def _link_row(child: MeshNode, link: Link) -> list[str]:
    return [
        one_line(link.parent) + (" (leaving)" if link.is_leaving else ""),
        one_line(child.name),
        _percent(link.loss),
        f"{link.round_trip_ms:,.1f} ms",
        f"{link.first:,}",
        saved_text(link),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _quote(text: str) -> str:
    """Return a quoted string of Graphviz, in which only quotes and backslashes have a meaning."""
    lines = (one_line(each) for each in text.split("\n"))
    escaped = (each.replace("\\", "\\\\").replace('"', '\\"') for each in lines)
    return '"' + "\\n".join(escaped) + '"'
