"""Text form of a DTD's compatibility report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from broker.rate_limited_log import printable_line


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    if not report["against"]:
        yield "the node has no older version to compare with"
        return
    yield f"{report['type']} {report['version']} against {report['against']}:"
    for sign, key in (("-", "went"), ("+", "came"), ("~", "changed")):
        for label in report[key]:
            yield f"  {sign} {printable_line(label)}"
    counts = report["subscriptions"]
    for effect in sorted(counts):
        yield f"{counts[effect]:,} subscriptions: {effect}"
    for each in report["affected"]:
        name = f"{each['client']} {each['name']}".strip()
        yield printable_line(f"  {name}: {each['effect']}: {each['query']}")
        if each["reason"]:
            yield f"    {printable_line(each['reason'])}"
