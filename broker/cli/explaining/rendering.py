"""An explanation for people: tables and trees. What a later version adds is passed over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from broker.cli.terminal import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.tree import Tree

_HOW: Final = {
    "index": "by the index",
    "evaluation": "by evaluation, behind what the index knows",
    "never": "never matches",
    "always": "always matches",
}
_ACCESS: Final = {
    "hash": "hash of equal values",
    "prefix": "hash of prefixes",
    "ranges": "ranges by sorted bounds",
    "grid": "grid of ranges",
    "bitmaps": "bitmaps by sorted bounds",
    "nothing": "nothing to look up",
}


def tables(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The answer of a node, or of ourselves."""
    explanation = content.get("explanation")
    if explanation is not None:
        yield _query(explanation, content.get("warnings", ()))
        if explanation.get("types") or explanation.get("engine") != "reference":
            yield _types(explanation)
        if explanation.get("event") is not None:
            yield from _event(explanation["event"], content.get("subscription"))
    if content.get("client") is not None:
        yield from _client(content["client"])
    if content.get("network") is not None:
        yield from _network(content["network"])


# --------------------------------------------------------------------------- how


def _query(told: Mapping[str, Any], warnings: Sequence[str]) -> Table:
    table = _table("Query")
    table.add_column("")
    table.add_column("")
    table.add_row("query", one_line(str(told.get("query"))))
    for warning in warnings:
        table.add_row("warning", one_line(warning))
    table.add_row("engine", one_line(str(told.get("engine"))))
    if told.get("everything"):
        table.add_row("", "it takes everything: it is not matched at all")
    elif told.get("engine") == "reference":
        table.add_row("", "this engine evaluates each query on each event")
    for alternative in told.get("alternatives", ()):
        literals = ", ".join(
            f"{operator} {literal}" for operator, literal in alternative["literals"]
        )
        table.add_row("looked up by", one_line(_access(alternative["access"])))
        table.add_row("literals", one_line(literals) or "-")
        table.add_row("queries like it", f"{alternative['sharing']:,}")
    table.add_row("estimated cost", f"{told.get('estimated_cost', 0):,} nodes of a thousand")
    measured = told.get("measured", {})
    for key, words in (
        ("lookup", "index look-up, all queries like it"),
        ("evaluation", "one evaluation by lxml"),
        ("parsing", "parsing and validating the event"),
    ):
        if measured.get(key) is not None:
            table.add_row(words, f"{measured[key] * 1e6:,.1f} µs")
    if measured.get("note"):
        table.add_row("cost", one_line(measured["note"]))
    return table


def _types(told: Mapping[str, Any]) -> Table:
    table = _table("On the shapes of events seen so far")
    for name in ("type", "shapes", "answered", "on"):
        table.add_column(name, justify="right" if name == "shapes" else "left")
    table.show_header = True
    for answer in told.get("types", ()):
        table.add_row(
            one_line(f"{answer['type']} {answer['version']}"),
            f"{answer['shapes']:,}",
            _HOW.get(answer["how"], answer["how"]),
            "\nor\n".join(map(_alternative, answer["alternatives"])) or "-",
        )
    if told.get("withheld"):
        table.add_row("", "", "", "not shown: they tell of events that you may not read")
    elif not told.get("types"):
        table.add_row("", "0", "", "no shape is known: events are parsed")
    if told.get("more_shapes"):
        table.add_row("", f"{told['more_shapes']:,}", "", "not looked at: it would take too long")
    return table


def _alternative(told: Mapping[str, Any]) -> str:
    lines = [
        one_line(
            f"{', '.join(each['paths'])}"
            + (f" and {each['more_paths']} more" if each["more_paths"] else "")
            + f" {each['operator']} {each['literal']}"
            + ("  (constant there)" if each["constant"] else "")
        )
        for each in told["comparisons"]
    ]
    if told["more_comparisons"]:
        lines.append(f"and {told['more_comparisons']} more comparisons")
    lines += [f"because {one_line(reason)}" for reason in told["reasons"]]
    if told["how"] in ("index", "evaluation"):
        lines.append(f"({_access(told['access'])})")
    return "\n".join(lines) or "-"


def _access(words: str) -> str:
    return " and ".join(_ACCESS.get(word, word) for word in words.split(" and "))


# --------------------------------------------------------------------------- why


def _event(
    event: Mapping[str, Any], subscription: Mapping[str, Any] | None
) -> Iterator[RenderableType]:
    table = _table("Event")
    table.add_column("")
    table.add_column("")
    if event.get("refused") is not None:
        code, text, line, _ = event["refused"]
        where = f" (line {line})" if line else ""
        table.add_row("refused", one_line(f"{code}: {text}{where}"))
        yield table
        return
    table.add_row("type", one_line(f"{event['type']} {event['version']}"))
    table.add_row("stream", one_line(event["stream"]))
    table.add_row("security level", one_line(event["security_level"]))
    if event["recognised"] is not None:
        table.add_row("recognised", "by its shape" if event["recognised"] else "no: it is parsed")
    if subscription is not None:
        table.add_row("pattern", one_line(subscription["pattern"]))
        for key, words in (
            ("allowed", "you may subscribe to that"),
            ("stream", "it takes the stream"),
            ("cleared", "you are cleared"),
        ):
            if key in subscription:
                table.add_row(words, _yes(subscription[key]))
    table.add_row("matches", _yes(event["matches"]))
    if event.get("note"):
        table.add_row("", one_line(event["note"]))
    yield table
    if event.get("finding") is not None:
        yield _tree(event["finding"])


def _tree(finding: Mapping[str, Any]) -> Tree:
    from rich.tree import Tree

    tree = Tree(_line(finding))
    _grow(tree, finding)
    return tree


def _grow(tree: Tree, finding: Mapping[str, Any]) -> None:
    for value in finding["values"]:
        tree.add(_value(value))
    if finding["more"]:
        tree.add(f"and {finding['more']:,} more")
    for part in finding["parts"]:
        _grow(tree.add(_line(part, finding["at"])), part)


def _line(finding: Mapping[str, Any], above: str = "") -> str:
    at = finding["at"]
    where = f" at {at}" if at and at != above else ""
    note = f": {finding['note']}" if finding["note"] else ""
    return one_line(f"{_yes(finding['holds'])} {finding['part']}{where}{note}")


def _value(value: Mapping[str, Any]) -> str:
    holds = "" if value["holds"] is None else f"{_yes(value['holds'])} "
    name = f"{value['path']} " if value["path"] else ""
    return one_line(f"{holds}{name}is {value['value']!r}")


def _yes(holds: bool | None) -> str:
    return "?" if holds is None else "yes" if holds else "no"


# --------------------------------------------------------------------------- a client


def _client(told: Mapping[str, Any]) -> Iterator[RenderableType]:
    table = _table(one_line(f"Client {told['client']}"))
    table.add_column("")
    table.add_column("")
    table.add_row("session", one_line(", ".join(told["connected"])) or "none")
    table.add_row("the node has the event", _yes(told["accepted"]))
    yield table
    subscriptions = _table("Its subscriptions")
    subscriptions.show_header = True
    for name in ("streams", "query", "verdict", "why"):
        subscriptions.add_column(name)
    for each in told["subscriptions"]:
        subscriptions.add_row(
            one_line(str(each.get("pattern", "-"))),
            one_line(str(each.get("query", "-"))),
            one_line(str(each.get("verdict") or each.get("pace"))),
            one_line(str(each.get("reason") or "-")),
        )
    if not told["subscriptions"]:
        subscriptions.add_row("-", "-", "-", "it has none")
    if told["left_out"]:
        subscriptions.add_row("", "", "", f"{told['left_out']:,} more are not looked at")
    yield subscriptions
    for each in told["subscriptions"]:
        if each.get("verdict") == "query" and each.get("finding") is not None:
            yield _tree(each["finding"])


# --------------------------------------------------------------------------- all nodes


def _network(told: Mapping[str, Any]) -> Iterator[RenderableType]:
    if not told["known"]:
        table = _table("In the network")
        table.add_column("")
        words = "no node that answered has this event: what is said is what would become of it"
        table.add_row(words if told["known"] is False else "you may not read such an event")
        if told.get("partly"):
            partly = one_line(", ".join(map(str, told["partly"])))
            table.add_row(f"{partly}: the log is long, and only a part of it was searched")
        yield table
    else:
        table = _table(one_line(f"In the network: the event at {told['place']}"))
        table.show_header = True
        for name in ("node", "verdict", "why"):
            table.add_column(name)
        for node in told["nodes"]:
            table.add_row(*(one_line(str(node[key])) for key in ("node", "verdict", "reason")))
            for each in node["subscriptions"]:
                words = f"{each.get('durable') or each.get('pattern')}: {each.get('verdict')}"
                table.add_row("", one_line(words), one_line(str(each.get("reason") or "-")))
            if node.get("left_out"):
                table.add_row("", f"{node['left_out']:,} more are not looked at", "")
        yield table
    if told["silent"]:
        table = _table("Did not answer")
        table.add_column("")
        for node in told["silent"]:
            table.add_row(one_line(str(node)))
        yield table


def _table(title: str) -> Table:
    from rich import box
    from rich.table import Table

    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE,
        show_header=False,
        pad_edge=False,
    )
