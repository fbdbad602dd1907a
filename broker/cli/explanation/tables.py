"""Tables of an explanation. Unknown keys of a later version are skipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from broker.cli.terminal import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.tree import Tree

_ANSWER_KINDS: Final = {
    "index": "by the index",
    "evaluation": "by evaluation, after the index",
    "never": "never matches",
    "always": "always matches",
}
_ACCESS_KINDS: Final = {
    "hash": "hash of equal values",
    "prefix": "hash of prefixes",
    "ranges": "ranges by sorted bounds",
    "grid": "grid of ranges",
    "bitmaps": "bitmaps by sorted bounds",
    "nothing": "no lookup",
}


def explanation_tables(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    explanation = content.get("explanation")
    if explanation is not None:
        yield _query_table(explanation, content.get("warnings", ()))
        if explanation.get("types") or explanation.get("engine") != "reference":
            yield _types_table(explanation)
        if explanation.get("event") is not None:
            yield from _event_tables(explanation["event"], content.get("subscription"))
    if content.get("client") is not None:
        yield from _client_tables(content["client"])
    if content.get("network") is not None:
        yield from _network_tables(content["network"])


def _query_table(content: Mapping[str, Any], warnings: Sequence[str]) -> Table:
    table = _make_table("Query")
    table.add_column("")
    table.add_column("")
    table.add_row("query", one_line(str(content.get("query"))))
    for warning in warnings:
        table.add_row("warning", one_line(warning))
    table.add_row("engine", one_line(str(content.get("engine"))))
    if content.get("everything"):
        table.add_row("", "it matches every event: no evaluation")
    elif content.get("engine") == "reference":
        table.add_row("", "this engine evaluates each query on each event")
    for alternative in content.get("alternatives", ()):
        literals = ", ".join(
            f"{operator} {literal}" for operator, literal in alternative["literals"]
        )
        table.add_row("lookup by", one_line(_format_access(alternative["access"])))
        table.add_row("literals", one_line(literals) or "-")
        table.add_row("similar queries", f"{alternative['sharing']:,}")
    table.add_row("estimated cost", f"{content.get('estimated_cost', 0):,} nodes of a thousand")
    measured = content.get("measured", {})
    for key, words in (
        ("lookup", "index lookup, all similar queries"),
        ("evaluation", "one evaluation by lxml"),
        ("parsing", "parsing and validating the event"),
    ):
        if measured.get(key) is not None:
            table.add_row(words, f"{measured[key] * 1e6:,.1f} µs")
    if measured.get("note"):
        table.add_row("cost", one_line(measured["note"]))
    return table


def _types_table(content: Mapping[str, Any]) -> Table:
    table = _make_table("Known shapes of events")
    for name in ("type", "shapes", "answered", "on"):
        table.add_column(name, justify="right" if name == "shapes" else "left")
    table.show_header = True
    for answer in content.get("types", ()):
        table.add_row(
            one_line(f"{answer['type']} {answer['version']}"),
            f"{answer['shapes']:,}",
            _ANSWER_KINDS.get(answer["how"], answer["how"]),
            "\nor\n".join(map(_format_alternative, answer["alternatives"])) or "-",
        )
    if content.get("withheld"):
        table.add_row("", "", "", "not shown: they describe events that you may not read")
    elif not content.get("types"):
        table.add_row("", "0", "", "no shape is known: events are parsed")
    if content.get("more_shapes"):
        table.add_row("", f"{content['more_shapes']:,}", "", "not examined: it would take too long")
    return table


def _format_alternative(content: Mapping[str, Any]) -> str:
    lines = [
        one_line(
            f"{', '.join(each['paths'])}"
            + (f" and {each['more_paths']} more" if each["more_paths"] else "")
            + f" {each['operator']} {each['literal']}"
            + ("  (constant there)" if each["constant"] else "")
        )
        for each in content["comparisons"]
    ]
    if content["more_comparisons"]:
        lines.append(f"and {content['more_comparisons']} more comparisons")
    lines += [f"because {one_line(reason)}" for reason in content["reasons"]]
    if content["how"] in ("index", "evaluation"):
        lines.append(f"({_format_access(content['access'])})")
    return "\n".join(lines) or "-"


def _format_access(words: str) -> str:
    return " and ".join(_ACCESS_KINDS.get(word, word) for word in words.split(" and "))


def _event_tables(
    event: Mapping[str, Any], subscription: Mapping[str, Any] | None
) -> Iterator[RenderableType]:
    table = _make_table("Event")
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
            ("allowed", "you may subscribe to it"),
            ("stream", "pattern matches the stream"),
            ("cleared", "you are cleared"),
        ):
            if key in subscription:
                table.add_row(words, _yes_no(subscription[key]))
    table.add_row("matches", _yes_no(event["matches"]))
    if event.get("note"):
        table.add_row("", one_line(event["note"]))
    yield table
    if event.get("finding") is not None:
        yield _finding_tree(event["finding"])


def _finding_tree(finding: Mapping[str, Any]) -> Tree:
    from rich.tree import Tree

    tree = Tree(_finding_line(finding))
    _add_findings(tree, finding)
    return tree


def _add_findings(tree: Tree, finding: Mapping[str, Any]) -> None:
    for value in finding["values"]:
        tree.add(_format_value(value))
    if finding["more"]:
        tree.add(f"and {finding['more']:,} more")
    for part in finding["parts"]:
        _add_findings(tree.add(_finding_line(part, finding["at"])), part)


def _finding_line(finding: Mapping[str, Any], above: str = "") -> str:
    at = finding["at"]
    where = f" at {at}" if at and at != above else ""
    note = f": {finding['note']}" if finding["note"] else ""
    return one_line(f"{_yes_no(finding['holds'])} {finding['part']}{where}{note}")


def _format_value(value: Mapping[str, Any]) -> str:
    holds = "" if value["holds"] is None else f"{_yes_no(value['holds'])} "
    name = f"{value['path']} " if value["path"] else ""
    return one_line(f"{holds}{name}is {value['value']!r}")


def _yes_no(holds: bool | None) -> str:
    return "?" if holds is None else "yes" if holds else "no"


def _client_tables(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    table = _make_table(one_line(f"Client {content['client']}"))
    table.add_column("")
    table.add_column("")
    table.add_row("session", one_line(", ".join(content["connected"])) or "none")
    table.add_row("the node has the event", _yes_no(content["accepted"]))
    yield table
    subscriptions = _make_table("Its subscriptions")
    subscriptions.show_header = True
    for name in ("streams", "query", "verdict", "why"):
        subscriptions.add_column(name)
    for each in content["subscriptions"]:
        subscriptions.add_row(
            one_line(str(each.get("pattern", "-"))),
            one_line(str(each.get("query", "-"))),
            one_line(str(each.get("verdict") or each.get("pace"))),
            one_line(str(each.get("reason") or "-")),
        )
    if not content["subscriptions"]:
        subscriptions.add_row("-", "-", "-", "it has none")
    if content["left_out"]:
        subscriptions.add_row("", "", "", f"{content['left_out']:,} more are not examined")
    yield subscriptions
    for each in content["subscriptions"]:
        if each.get("verdict") == "query" and each.get("finding") is not None:
            yield _finding_tree(each["finding"])


def _network_tables(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    if not content["known"]:
        table = _make_table("In the network")
        table.add_column("")
        words = "no node that answered has this event: the outcome is a prediction"
        table.add_row(words if content["known"] is False else "you may not read such an event")
        if content.get("partly"):
            partly = one_line(", ".join(map(str, content["partly"])))
            table.add_row(f"{partly}: only a part of the long log was searched")
        if content.get("stack"):
            stack = content["stack"]
            table.add_row(one_line(f"{stack['pattern']} is carried by: {_format_stack(stack)}"))
        yield table
    else:
        table = _make_table(one_line(f"In the network: the event at {content['place']}"))
        table.show_header = True
        names = ["node", "verdict", "why"]
        if any(node.get("stack") for node in content["nodes"]):
            names.append("stack")
        for name in names:
            table.add_column(name)
        for node in content["nodes"]:
            row = [str(node[key]) for key in ("node", "verdict", "reason")]
            row += [_format_stack(node.get("stack"))] * ("stack" in names)
            table.add_row(*map(one_line, row))
            for each in node["subscriptions"]:
                words = f"{each.get('durable') or each.get('pattern')}: {each.get('verdict')}"
                table.add_row("", one_line(words), one_line(str(each.get("reason") or "-")))
            if node.get("left_out"):
                table.add_row("", f"{node['left_out']:,} more are not examined", "")
        yield table
    if content["silent"]:
        table = _make_table("Did not answer")
        table.add_column("")
        for node in content["silent"]:
            table.add_row(one_line(str(node)))
        yield table


def _format_stack(stack: Mapping[str, Any] | None) -> str:
    if not stack:
        return "-"
    text = f"{stack['name']} ({stack['use']})"
    if not stack["name"]:
        text = "none: requested from the origin's log"
    if stack["error"]:
        text += f", stopped by an error: {stack['error']}"
    if stack.get("reached"):
        text += f", has all up to {stack['reached']}"
    return text


def _make_table(title: str) -> Table:
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
