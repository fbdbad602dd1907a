"""Events a second through one node, with mosquitto as the peer measured in the same run."""

from __future__ import annotations

from typing import Any, Final

from benchmarks.harness.actor import Actor
from benchmarks.harness.flights import PAYLOAD_BYTES
from benchmarks.harness.flow import Course, Flow
from benchmarks.harness.lab import Lab
from benchmarks.harness.mosquitto import MosquittoProcess, Unavailable, executable, version
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.node_status import node_status
from benchmarks.harness.report import Report
from benchmarks.harness.speed import parse_microseconds
from benchmarks.node_report import CLIENT, DOCUMENT, PAYLOAD, PREBUILT, Work, report

DESCRIPTION: Final = (
    "events a second through one node, prebuilt and by the client library; mosquitto"
)

#: Events in a PUBLISH message of the prebuilt publisher.
BATCH: Final = 500
#: Events that the client library's user leaves unanswered.
WINDOW: Final = 4_000
RUNS: Final = 3


def run(lab: Lab) -> Report:
    """Measure everything."""
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
        "a parse: of one event by lxml, between the runs: how fast the machine was at that moment; "
        "a commit: events in one, on average",
    ]
    program = None
    try:
        program = executable()
        notes.append(
            f"mosquitto {version(program)}: QoS 0, by topic alone, nothing validated, filtered by "
            "content, logged or acknowledged; prebuilt frames, readers that count bytes"
        )
    except Unavailable as reason:
        notes.append(f"no peer: {reason}")
    works: list[Work] = []
    # The peer's turn comes soon after ours: a machine has better and worse minutes.
    for subscribers, events, peer_events in ((1, 60_000, 200_000), (10, 40_000, 60_000)):
        works.append(_node(lab, PREBUILT, subscribers, events))
        works.append(_node(lab, CLIENT, subscribers, events // 2))
        if program is not None:
            works.append(_mosquitto(lab, program, DOCUMENT, subscribers, peer_events))
            works.append(_mosquitto(lab, program, PAYLOAD, subscribers, peer_events))
    return report(works, notes)


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
        flows, parses = _flows(lab, course, name, portions)
        log = node_status(node.endpoint)["log"]
        course.end()
        node.stop()
    return Work(name, subscribers, flows, parses, events_a_commit=log["last"] / log["commits"])


def _mosquitto(lab: Lab, program: str, name: str, subscribers: int, events: int) -> Work:
    portions = _portions(lab, events)
    with lab.empty_folder() as folder:
        broker = MosquittoProcess(lab.children, program, folder)
        task = {"port": broker.port, "portions": portions}
        subscriber = Actor(lab.children, "mqtt_read", {**task, "subscribers": subscribers})
        publisher = Actor(lab.children, "mqtt_publish", {**task, "envelope": name == DOCUMENT})
        course = Course(broker.pid, publisher, subscriber, subscribers)
        flows, parses = _flows(lab, course, name, portions)
        course.end()
        broker.stop()
    return Work(name, subscribers, flows, parses)


def _flows(
    lab: Lab, course: Course, name: str, portions: list[int]
) -> tuple[list[Flow], list[float]]:
    flows, parses = [], []
    for index, events in enumerate(portions):
        what = f"run {index} of {len(portions) - 1}" if index else "warming up"
        lab.say(f"{name} 1->{course.subscribers}: {what}")
        flows.append(course.run(events))
        parses.append(parse_microseconds())
    return flows[1:], parses[1:]
