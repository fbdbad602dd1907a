"""Lines about a group of sites, from the status of a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def group_lines(group: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for the group, and one for each other site."""
    streams = ", ".join(group.get("streams", ()))
    line = f"{group.get('name')}: {group.get('order')} order of {streams}"
    counts = {key: group.get(key, 0) for key in ("waiting", "missing", "lost_sends", "rejected")}
    line += "".join(f", {count} {key.replace('_', ' ')}" for key, count in counts.items() if count)
    line += f"; refuses events: {group['refusal']}" if group.get("refusal") else ""
    yield line + (f"; stopped: {group['error']}" if group.get("error") else "")
    for site in group.get("peers", ()):
        yield f"  {_site_text(site, group.get('released'))}"


def site_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sites of a group after a change."""
    note = "" if answer.get("applied") else f"; a later change of {answer.get('site')} counts"
    yield f"{answer.get('stack')}: sites at this node{note}"
    for site, address in answer.get("sites", {}).items():
        yield f"  {site}: {address}"


def _site_text(site: Mapping[str, Any], released: object) -> str:
    text = f"{site.get('site')}: {site.get('status')}"
    if isinstance(site.get("for"), int | float):
        text += f" for {site['for']:.0f} s"
    if site.get("error"):
        text += f", {site['error']}"
    if site.get("reason"):
        text += f", {site['reason']}"
    if isinstance(site.get("next_change_in"), int | float):
        text += f", next change in {site['next_change_in']:.0f} s"
    if isinstance(site.get("clock_offset"), int | float):
        offset, bound = site["clock_offset"] * 1000, site.get("clock_uncertainty", 0.0) * 1000
        text += f", clock {offset:+.1f} ± {bound:.1f} ms"
    if isinstance(released, int) and isinstance(site.get("delivered"), int):
        text += f", has {site['delivered']:,} of {released:,} messages"
    return text
