"""What a node answers to `recover-explain`, in words for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from broker.cli.terminal import one_line

_SOURCES: Final = {
    "log": "this node's log",
    "former": "the node where the client was",
    "logs": "logs of origins",
    "archive": "the archive",
}


def words(plan: Mapping[str, Any]) -> Iterator[str]:
    """Lines of text."""
    yield from _heading(plan)
    if plan.get("moved_to"):
        yield f"It is at {one_line(plan['moved_to'])} now: ask there."
    steps = plan.get("steps", ())
    if steps:
        yield "Asked in this order, each for what those before it did not have:"
    for number, step in enumerate(steps, 1):
        yield f"  {number}. {_source(step)}: {one_line(step['why'])}"
    for origin in plan.get("origins", ()):
        yield from _origin(origin)
    if not plan.get("origins"):
        yield "Nothing is missing of any origin that this node knows."
    if plan.get("others"):
        available = plan.get("archive", {}).get("available")
        where = "what the archive has of them comes too" if available else "there is no archive"
        yield f"Origins that this node does not know: {where}."
    if plan.get("busy"):
        yield f"{plan['busy']} other recoveries are under way: logs are asked for less."


def _heading(plan: Mapping[str, Any]) -> Iterator[str]:
    whose = f"Durable subscription {one_line(plan['durable'])}: " if plan.get("durable") else ""
    query = one_line(str(plan.get("query")))
    yield f"{whose}{query} on streams {one_line(str(plan.get('streams')))}"
    position = plan.get("position")
    begins = "from the beginning" if position is None else f"behind {one_line(position)}"
    yield f"{begins}, {_places(plan.get('places'))} to look at"


def _origin(told: Mapping[str, Any]) -> Iterator[str]:
    own = " (this node)" if told.get("own") else ""
    yield f"origin {one_line(told['origin'])}{own}: {_interval(told)}"
    for part in told.get("parts", ()):
        whom = ", ".join(map(one_line, part.get("whom", ())))
        asked = f" of {whom}" if whom else ""
        yield f"  {_interval(part)}: {_source(part)}{asked}"
    for gap in told.get("gaps", ()):
        yield f"  {_interval(gap)}: nobody has it: {one_line(gap['why'])}"


def _source(told: Mapping[str, Any]) -> str:
    source = str(told.get("source"))
    return _SOURCES.get(source, one_line(source))


def _interval(told: Mapping[str, Any]) -> str:
    upto = told.get("upto")
    end = "all that there is" if upto is None else f"up to {upto[0]}:{upto[1]}"
    return f"behind {told['after'][0]}:{told['after'][1]}, {end}, {_places(told.get('places'))}"


def _places(count: int | None) -> str:
    if count is None:
        return "nobody knows how many places"
    return "1 place" if count == 1 else f"{count:,} places"
