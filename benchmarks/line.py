"""Cost of relaying events: a line of three nodes against a single one.

The publisher is at node `a`, and `b` lies between `a` and `c`. Works run in turn, so that a
disturbance hits all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from benchmarks.actors.subscribe import EVERYTHING
from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.flights import LOW, is_low
from benchmarks.harness.flow import TIMEOUT
from benchmarks.harness.linked_nodes import LineOptions, start_line
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.node_status import read_status
from benchmarks.harness.report import Report
from benchmarks.harness.speed import measure_parse
from benchmarks.harness.usage import busy_seconds, cpu_seconds
from benchmarks.line_report import (
    ALONE,
    ALONE_FLAT_OUT,
    COMPRESSED,
    EVERY_HOP,
    INGRESS,
    KEPT,
    MIDDLE,
    PLAIN,
    PLAIN_FLAT_OUT,
    SELECTIVE,
    TWO,
    Crossing,
    report,
)

DESCRIPTION: Final = "processor time that passing events on costs a node in a line of three"

#: Events in a PUBLISH message.
BATCH: Final = 500
ROUNDS: Final = 3
EVENTS: Final = 20_000
#: Nodes learn shapes, and linked nodes exchange interests.
WARM_UP: Final = 10_000
#: Carried by a line on the reference machine, with all actors on it.
RATE: Final = 10_000.0
#: A delayed subscriber must not miss events.
_QUEUE: Final = "[queue]\nevents = 1000000\n"
_KEPT: Final = '[streams.">"]\nacknowledge = "neighbour"\n'


@attrs.frozen
class Work:
    """Positions of publisher and subscribers are indices of nodes."""

    name: str
    nodes: int
    publisher: int = 0
    subscribers: Sequence[int] = ()
    query: str = EVERYTHING
    rate: float | None = RATE
    """None: at full speed."""
    options: LineOptions = LineOptions()


WORKS: Final = (
    Work(INGRESS, 1),
    Work(ALONE, 1, subscribers=[0]),
    Work(ALONE_FLAT_OUT, 1, subscribers=[0], rate=None),
    Work(MIDDLE, 3, publisher=1, subscribers=[1]),
    Work(PLAIN, 3, subscribers=[2]),
    Work(PLAIN_FLAT_OUT, 3, subscribers=[2], rate=None),
    Work(COMPRESSED, 3, subscribers=[2], options=LineOptions(compress=True)),
    Work(TWO, 3, subscribers=[1, 2]),
    Work(SELECTIVE, 3, subscribers=[2], query=LOW),
    Work(
        EVERY_HOP, 3, subscribers=[2], options=LineOptions(network_toml='validate = "every-hop"\n')
    ),
    Work(KEPT, 3, subscribers=[2], options=LineOptions(tables_toml=_KEPT)),
)


def run(context: BenchmarkContext) -> Report:
    rounds = 1 if context.quick else ROUNDS
    portions = [500, 1_000] if context.quick else [WARM_UP, EVENTS]
    crossings = []
    for number in range(1, rounds + 1):
        for work in WORKS:
            context.report_progress(f"round {number} of {rounds}: {work.name}")
            crossings.append(_measure_crossing(context, work, portions))
    return report(crossings, _notes(portions[-1]))


def _notes(events: int) -> list[str]:
    return [
        f"{events:,} prebuilt events a run, in PUBLISH messages of {BATCH}, {RATE:,.0f} a second "
        "or (flat out) as fast as the session takes them; nodes, publisher and subscribers are "
        "processes of this machine and share it",
        "a line: three clusters of one node, links by TCP that are authenticated with a shared "
        "key, so trusted: events are validated at their publisher and at interested nodes",
        "us/event: processor time of the node, all its threads, over all events published, from "
        "the first send until the last event is acknowledged and delivered",
        "ingress: the cost of a single node without subscriber; it validates, matches, "
        "logs and acknowledges",
        "pages: requests for events dropped by full links, read from the log",
    ]


def _measure_crossing(context: BenchmarkContext, work: Work, portions: Sequence[int]) -> Crossing:
    """The last portion is measured, earlier ones warm up."""
    with context.empty_folder() as folder:
        nodes = start_line(context.children, folder, work.nodes, work.options, _QUEUE)
        # A subscription that starts first gets the cut of everything later.
        subscribers = [
            _start_subscriber(context, work, nodes[at], portions) for at in work.subscribers
        ]
        for each in subscribers:
            each.wait_for("ready", TIMEOUT)
        task: dict[str, Any] = {"endpoint": nodes[work.publisher].endpoint, "portions": portions}
        task |= {"batch": BATCH, "rate": work.rate}
        publisher = Actor(context.children, "publish_prebuilt", task)
        for index in range(len(portions)):
            publisher.wait_for("ready", TIMEOUT)
            for each in subscribers if index else ():
                each.wait_for("ready", TIMEOUT)
            before, busy = [cpu_seconds(node.pid) for node in nodes], busy_seconds()
            before_counts = _read_counts(nodes, work.publisher)
            for each in (*subscribers, publisher):
                each.start_run()
            sent = publisher.wait_for("done", TIMEOUT)
            came = [each.wait_for("done", TIMEOUT) for each in subscribers]
            used = [cpu_seconds(node.pid) - past for node, past in zip(nodes, before, strict=True)]
            busy = busy_seconds() - busy
        for each in (*subscribers, publisher):
            each.stop()
        done = _read_counts(nodes, work.publisher)
        for node in nodes:
            node.stop()
    seconds = max([sent["ended"], *(each["ended"] for each in came)]) - sent["began"]
    actors = sent["cpu"] + sum(each["cpu"] for each in came)
    return Crossing(
        work=work.name,
        events=portions[-1],
        seconds=seconds,
        cpu=used,
        frames=done["frames"] - before_counts["frames"],
        link_bytes=done["link_bytes"] - before_counts["link_bytes"],
        full=done["full"] - before_counts["full"],
        pages=done["pages"] - before_counts["pages"],
        dropped=sum(each["dropped"] for each in came),
        others=max(0.0, busy - sum(used) - actors) / seconds,
        parse=measure_parse(),
    )


def _start_subscriber(
    context: BenchmarkContext, work: Work, node: NodeProcess, portions: Sequence[int]
) -> Actor:
    matching, first = [], 0
    for count in portions:
        numbers = range(first, first + count)
        matching.append(count if work.query == EVERYTHING else sum(map(is_low, numbers)))
        first += count
    task = {"endpoint": node.endpoint, "subscribers": 1, "portions": matching, "query": work.query}
    return Actor(context.children, "subscribe", task)


def _read_counts(nodes: Sequence[NodeProcess], publisher: int) -> dict[str, int]:
    """Frames and bytes of the publisher's node, messages dropped by full links, and pages."""
    if len(nodes) == 1:
        return dict.fromkeys(("frames", "link_bytes", "full", "pages"), 0)
    statuses: list[dict[str, Any]] = [read_status(node.endpoint)["network"] for node in nodes]
    return {
        "frames": statuses[publisher]["frames"]["begun"],
        "link_bytes": sum(link["sent_bytes"] for link in statuses[publisher]["links"]),
        "full": sum(link["full"] for each in statuses for link in each["links"]),
        "pages": sum(each["frames"]["served"] for each in statuses),
    }
