"""Events a second through one node, with mosquitto as the peer measured in the same run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from benchmarks.harness.actor import Actor
from benchmarks.harness.flights import PAYLOAD_BYTES
from benchmarks.harness.flow import Course, Flow, Spread, as_json
from benchmarks.harness.lab import Lab
from benchmarks.harness.mosquitto import MosquittoProcess, Unavailable, executable, version
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.node_status import node_status
from benchmarks.harness.report import Floor, Report, Sheet, number

DESCRIPTION: Final = (
    "events a second through one node, prebuilt and by the client library; mosquitto"
)

FLOOR_EVENTS: Final = 15_000.0
FLOOR_DELIVERIES: Final = 80_000.0
#: Events in a PUBLISH message of the prebuilt publisher.
BATCH: Final = 500
#: Events that the client library's user leaves unanswered.
WINDOW: Final = 4_000
RUNS: Final = 3

PREBUILT: Final = "node, prebuilt"
CLIENT: Final = "node, client library"
DOCUMENT: Final = "mosquitto, whole event"
PAYLOAD: Final = "mosquitto, payload alone"


@attrs.frozen
class Work:
    """One thing that is measured: all its runs, on one broker process."""

    name: str
    subscribers: int
    flows: Sequence[Flow]
    events_a_commit: float | None = None

    @property
    def label(self) -> str:
        """As tables name it."""
        return f"{self.name} 1->{self.subscribers}"

    def spread(self, name: str) -> Spread:
        """Of a figure of `Flow`, by its name."""
        return Spread.of(self.flows, lambda flow: float(getattr(flow, name)))

    @property
    def dropped(self) -> int:
        """Events that did not reach every subscriber, over all runs."""
        return sum(flow.dropped for flow in self.flows)


def run(lab: Lab) -> Report:
    """Measure everything."""
    works: list[Work] = []
    for subscribers, events in ((1, 60_000), (10, 40_000)):
        works.append(_node(lab, PREBUILT, subscribers, events))
        works.append(_node(lab, CLIENT, subscribers, events // 2))
    notes = [
        f"payload {PAYLOAD_BYTES} bytes, in its envelope about 1,036; every event distinct, "
        "validated, and committed to the node's log (sync) before it is delivered",
        "a query `true()` a subscriber: every event matches every subscriber",
        f"prebuilt: PUBLISH messages of {BATCH} events, written before the clock starts, over a "
        "real session; client library: one publish() an event, "
        f"at most {WINDOW:,} receipts awaited",
        "subscribers: real sessions, all in one process, that decode the headers of deliveries "
        "alone and check that every place came, once and in order",
        "time: from the first send to the last event at the last subscriber",
    ]
    try:
        program = executable()
    except Unavailable as reason:
        notes.append(f"no peer: {reason}")
    else:
        for subscribers, events in ((1, 200_000), (10, 60_000)):
            works.append(_mosquitto(lab, program, DOCUMENT, subscribers, events))
            works.append(_mosquitto(lab, program, PAYLOAD, subscribers, events))
        notes.append(
            f"mosquitto {version(program)}: QoS 0, by topic alone, nothing validated, filtered by "
            "content, logged or acknowledged; prebuilt frames, readers that count bytes"
        )
    return _report(works, notes)


def _portions(lab: Lab, events: int) -> list[int]:
    """How many events each run sends; the first run only warms up."""
    return [500, 2_000] if lab.quick else [2_000] + [events] * RUNS


def _node(lab: Lab, name: str, subscribers: int, events: int) -> Work:
    portions = _portions(lab, events)
    with lab.empty_folder() as folder:
        node = NodeProcess(lab.children, folder)
        task: dict[str, Any] = {"endpoint": node.endpoint, "portions": portions}
        publisher = (
            Actor(lab.children, "publish_prebuilt", {**task, "batch": BATCH})
            if name == PREBUILT
            else Actor(lab.children, "publish_client", {**task, "window": WINDOW})
        )
        subscriber = Actor(lab.children, "subscribe", {**task, "subscribers": subscribers})
        course = Course(node.pid, publisher, subscriber, subscribers)
        flows = _flows(lab, course, name, portions)
        log = node_status(node.endpoint)["log"]
        course.end()
        node.stop()
    return Work(name, subscribers, flows, events_a_commit=log["last"] / log["commits"])


def _mosquitto(lab: Lab, program: str, name: str, subscribers: int, events: int) -> Work:
    portions = _portions(lab, events)
    with lab.empty_folder() as folder:
        broker = MosquittoProcess(lab.children, program, folder)
        task = {"port": broker.port, "portions": portions}
        subscriber = Actor(lab.children, "mqtt_read", {**task, "subscribers": subscribers})
        publisher = Actor(lab.children, "mqtt_publish", {**task, "envelope": name == DOCUMENT})
        course = Course(broker.pid, publisher, subscriber, subscribers)
        flows = _flows(lab, course, name, portions)
        course.end()
        broker.stop()
    return Work(name, subscribers, flows)


def _flows(lab: Lab, course: Course, name: str, portions: list[int]) -> list[Flow]:
    flows = []
    for index, events in enumerate(portions):
        what = f"run {index} of {len(portions) - 1}" if index else "warming up"
        lab.say(f"{name} 1->{course.subscribers}: {what}")
        flows.append(course.run(events))
    return flows[1:]


# ----------------------------------------------------------------------------- the report


def _report(works: Sequence[Work], notes: list[str]) -> Report:
    found = {work.label: work for work in works}
    one, ten = found[f"{PREBUILT} 1->1"], found[f"{PREBUILT} 1->10"]
    return Report(
        name="node",
        sheets=[_rates(works), _costs(works)],
        floors=[
            Floor(
                "prebuilt 1->1, events", one.spread("published").median, FLOOR_EVENTS, "events/s"
            ),
            Floor(
                "prebuilt 1->10, deliveries",
                ten.spread("delivered").median,
                FLOOR_DELIVERIES,
                "deliveries/s",
            ),
            Floor(
                "prebuilt, events dropped for slow subscribers",
                one.dropped + ten.dropped,
                1,
                "events",
                at_least=False,
            ),
        ],
        notes=notes,
        figures={
            "works": [
                {
                    "name": work.name,
                    "subscribers": work.subscribers,
                    "events_a_commit": work.events_a_commit,
                    "runs": [as_json(flow) for flow in work.flows],
                }
                for work in works
            ]
        },
        draw=lambda figure: _draw(works, figure),
    )


def _rates(works: Sequence[Work]) -> Sheet:
    peers = {(work.name, work.subscribers): work for work in works}
    rows = []
    for work in works:
        into, out = work.spread("published"), work.spread("delivered")
        ratios = []
        for name in (DOCUMENT, PAYLOAD):
            peer = peers.get((name, work.subscribers))
            ours = work.name in (PREBUILT, CLIENT) and peer is not None
            ratios.append(
                f"{out.median / peer.spread('delivered').median:.2f}" if ours and peer else ""
            )
        rows.append(
            [
                work.label,
                str(len(work.flows)),
                number(into.median),
                f"{number(into.least)}-{number(into.most)}",
                number(out.median),
                f"{number(out.least)}-{number(out.most)}",
                *ratios,
            ]
        )
    return Sheet(
        "One broker process, TCP on loopback",
        [
            *("work", "runs", "events/s in", "min-max", "deliveries/s", "min-max"),
            *("mosquitto (event) = 1", "mosquitto (payload) = 1"),
        ],
        rows,
    )


def _costs(works: Sequence[Work]) -> Sheet:
    rows = []
    for work in works:
        commit = work.events_a_commit
        rows.append(
            [
                work.label,
                f"{work.spread('microseconds').median:.1f}",
                f"{work.spread('cores').median:.2f}",
                number(work.spread("resident").most / 1e6),
                number(work.spread("anonymous").most / 1e6),
                "" if commit is None else number(commit),
                "" if commit is None else number(sum(flow.acknowledged for flow in work.flows)),
                number(work.dropped),
                f"{work.spread('others').median:.2f}",
            ]
        )
    return Sheet(
        "What it cost the broker, and what disturbed it",
        [
            *("work", "CPU us/event", "cores", "RSS MB", "RssAnon MB", "events/commit"),
            *("acknowledged", "dropped", "cores of others"),
        ],
        rows,
    )


def _draw(works: Sequence[Work], figure: Any) -> None:
    for column, subscribers in enumerate((1, 10)):
        axes = figure.add_subplot(1, 2, column + 1)
        shown = [work for work in works if work.subscribers == subscribers]
        spreads = [work.spread("delivered") for work in shown]
        axes.bar(
            [work.name.replace(", ", "\n") for work in shown],
            [spread.median for spread in spreads],
            yerr=[
                [spread.median - spread.least for spread in spreads],
                [spread.most - spread.median for spread in spreads],
            ],
            color=["tab:blue" if work.name.startswith("node") else "tab:grey" for work in shown],
        )
        floor = FLOOR_EVENTS if subscribers == 1 else FLOOR_DELIVERIES
        axes.axhline(floor, color="tab:red", linestyle="--", label="floor, for prebuilt")
        axes.set_title(f"1 publisher, {subscribers} subscriber{'s' if subscribers > 1 else ''}")
        axes.set_ylabel("deliveries a second")
        axes.tick_params(axis="x", labelsize=8)
        axes.legend()
