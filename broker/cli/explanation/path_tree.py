"""The paths of one event through a mesh, as a tree from its roots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from broker.cli.terminal import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.tree import Tree


@attrs.frozen
class PathStep:
    """A node on a path, with the copies that it forwarded."""

    line: str
    steps: Sequence[PathStep] = ()


def find_path_steps(nodes: Sequence[Mapping[str, Any]]) -> list[PathStep]:
    """Return a step for each root, and one for each node whose copy came from none of them.

    `nodes` are as `broker.streams.tracing_transport.NodePart`. A node with several copies is below
    each of its parents, with the nodes after it only below the parent of its first copy.
    """
    by_name = {str(node["name"]): node for node in nodes}
    placed: set[str] = set()
    found = []
    for node in nodes:
        if node["is_root"]:
            placed.add(node["name"])
            reached = "root" if node["has_passed"] else "root: the event has not arrived here"
            line = f"{node['name']} ({reached})"
            found.append(PathStep(line, list(_steps_below(node, by_name, placed))))
    for node in nodes:
        if node["copies"] and node["name"] not in placed:
            placed.add(node["name"])
            line = f"{node['name']} (first from {node['copies'][0]['parent']}: no answer)"
            found.append(PathStep(line, list(_steps_below(node, by_name, placed))))
    return found


def _steps_below(
    parent: Mapping[str, Any], by_name: Mapping[str, Mapping[str, Any]], placed: set[str]
) -> Iterator[PathStep]:
    for link in parent["children"]:
        name = str(link["name"])
        child = by_name.get(name)
        line = f"{name}: {_describe_copy(str(parent['name']), link, child)}"
        is_first = (
            child is not None and child["copies"] and child["copies"][0]["parent"] == parent["name"]
        )
        if child is None or not is_first or name in placed:
            yield PathStep(line)
            continue
        placed.add(name)
        yield PathStep(line, list(_steps_below(child, by_name, placed)))


def _describe_copy(parent: str, link: Mapping[str, Any], child: Mapping[str, Any] | None) -> str:
    """Return the outcome of the copy that a parent had for a child."""
    copies = () if child is None else child["copies"]
    for number, copy in enumerate(copies):
        if copy["parent"] == parent:
            when = f"late, {copy['late_ms']:,.1f} ms behind the first" if number else "first"
            return when + (", repeated after a request" if copy["is_repeated"] else "")
    if link["outcome"] == "filtered":
        queries = "; ".join(link["queries"])
        return f"filtered: no query of it matches ({queries})"
    if link["outcome"] == "waiting":
        return "not sent: it was just joining"
    if link["outcome"] == "unknown":
        return "unknown: the parent does not remember the event"
    if child is None:
        return "forwarded; it does not answer questions"
    others = {each["name"]: each["has_passed"] for each in child["parents"]}
    if parent not in others:
        return "forwarded over an earlier connection; nothing is known of the copy"
    return "lost" if others[parent] else "forwarded, and not arrived yet"


def path_tables(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield the answer to `explain --mesh` for a terminal."""
    from rich.tree import Tree

    if content["place"] is None:
        yield f"no node that answered has the event {one_line(content['event'])} in its log"
    else:
        stack = (content["stack"] or {}).get("name") or "no stack"
        title = f"{content['event']} at {content['place']}, over {stack}"
        tree = Tree(one_line(title))
        steps = find_path_steps(content["nodes"])
        _add_steps(tree, steps)
        if not steps:
            tree.add("no node remembers its paths: its stack is no mesh, or it is too old")
        yield tree
    for key, words in (
        ("partly", "only a part of the log was searched"),
        ("silent", "did not answer"),
    ):
        if content[key]:
            yield one_line(f"{', '.join(content[key])}: {words}")


def _add_steps(tree: Tree, steps: Sequence[PathStep]) -> None:
    for step in steps:
        _add_steps(tree.add(one_line(step.line)), step.steps)
