"""Text form of a node's answer to `recover-explain`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from broker.cli.terminal import one_line

_SOURCES: Final = {
    "log": "this node's log",
    "former": "the client's previous node",
    "logs": "logs of other nodes",
    "archive": "the archive",
}


def plan_lines(plan: Mapping[str, Any]) -> Iterator[str]:
    yield from _heading(plan)
    if plan.get("moved_to"):
        yield f"The subscription is at {one_line(plan['moved_to'])} now: ask that node."
    steps = plan.get("steps", ())
    if steps:
        yield "Sources, in order; each is asked only for what the previous ones lack:"
    for number, step in enumerate(steps, 1):
        yield f"  {number}. {_source_name(step)}: {one_line(step['why'])}"
    for origin in plan.get("origins", ()):
        yield from _origin_lines(origin)
    if not plan.get("origins"):
        yield "No events are missing of the origins known to this node."
    if plan.get("others"):
        available = plan.get("archive", {}).get("available")
        where = "replayed from the archive" if available else "there is no archive"
        yield f"Origins unknown to this node: {where}."
    if plan.get("busy"):
        yield f"{plan['busy']} other recoveries are running: fewer places are read from logs."


def _heading(plan: Mapping[str, Any]) -> Iterator[str]:
    prefix = f"Durable subscription {one_line(plan['durable'])}: " if plan.get("durable") else ""
    query = one_line(str(plan.get("query")))
    yield f"{prefix}{query} on streams {one_line(str(plan.get('streams')))}"
    position = plan.get("position")
    begins = "from the beginning" if position is None else f"after {one_line(position)}"
    yield f"{begins}, {_format_places(plan.get('places'))} to read"


def _origin_lines(entry: Mapping[str, Any]) -> Iterator[str]:
    own = " (this node)" if entry.get("own") else ""
    yield f"origin {one_line(entry['origin'])}{own}: {_format_interval(entry)}"
    for part in entry.get("parts", ()):
        addresses = ", ".join(map(one_line, part.get("whom", ())))
        source_suffix = f" of {addresses}" if addresses else ""
        yield f"  {_format_interval(part)}: {_source_name(part)}{source_suffix}"
    for gap in entry.get("gaps", ()):
        yield f"  {_format_interval(gap)}: no source has it: {one_line(gap['why'])}"


def _source_name(entry: Mapping[str, Any]) -> str:
    source = str(entry.get("source"))
    return _SOURCES.get(source, one_line(source))


def _format_interval(entry: Mapping[str, Any]) -> str:
    upto = entry.get("upto")
    end = "to the end" if upto is None else f"up to {upto[0]}:{upto[1]}"
    places = _format_places(entry.get("places"))
    return f"after {entry['after'][0]}:{entry['after'][1]}, {end}, {places}"


def _format_places(count: int | None) -> str:
    if count is None:
        return "an unknown number of places"
    return "1 place" if count == 1 else f"{count:,} places"
