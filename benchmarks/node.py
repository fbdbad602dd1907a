"""Events a second through one node, also with many queries loaded, and through its peers."""

from __future__ import annotations

from typing import Any, Final

from benchmarks.actors.stomp_read import expected
from benchmarks.harness.activemq import (
    BROKER_OPTIONS,
    JAVA_OPTIONS,
    ActiveMqProcess,
    available,
)
from benchmarks.harness.actor import Actor
from benchmarks.harness.debian import Unavailable
from benchmarks.harness.flights import PAYLOAD_BYTES
from benchmarks.harness.flow import PATIENCE, Course, Flow
from benchmarks.harness.lab import Lab
from benchmarks.harness.mosquitto import MosquittoProcess, executable, version
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.node_status import node_status
from benchmarks.harness.report import Report
from benchmarks.harness.speed import parse_microseconds
from benchmarks.harness.work import Further, Work
from benchmarks.node_report import (
    ACTIVEMQ,
    CLIENT,
    DOCUMENT,
    FURTHER,
    PAYLOAD,
    PREBUILT,
    report,
)
from benchmarks.workloads.flights import rare_queries

DESCRIPTION: Final = (
    "events a second through one node, prebuilt and by the client library; mosquitto and ActiveMQ"
)

#: Events in a PUBLISH message of the prebuilt publisher.
BATCH: Final = 500
#: Events that the client library's user leaves unanswered.
WINDOW: Final = 4_000
RUNS: Final = 3
#: Sessions that share the further queries.
SESSIONS: Final = 10
#: Queries and events of each of ActiveMQ's works: about two seconds.
SELECTORS: Final = ((0, 60_000), (10, 6_000), (100, 800), (FURTHER, 80))


def run(lab: Lab) -> Report:
    """Measure everything."""
    notes = _notes()
    mosquitto = activemq = False
    program = ""
    try:
        program = executable()
        mosquitto = True
        notes.append(
            f"mosquitto {version(program)}: QoS 0, by topic alone, nothing validated, filtered by "
            "content, logged or acknowledged; prebuilt frames, readers that count bytes"
        )
    except Unavailable as reason:
        notes.append(f"no peer that forwards by topic: {reason}")
    try:
        notes += _of_activemq(available())
        activemq = True
    except Unavailable as reason:
        notes.append(f"no peer that filters on content: {reason}")
    works: list[Work] = []
    # The peers' turn comes soon after ours: a machine has better and worse minutes.
    for subscribers, events, peer_events in ((1, 60_000, 200_000), (10, 40_000, 60_000)):
        for further in (0, FURTHER):
            works.append(_node(lab, PREBUILT, subscribers, events, further))
            works.append(_node(lab, CLIENT, subscribers, events // 2, further))
        if activemq and subscribers == 1:
            works += _activemq(lab)
        if mosquitto:
            works.append(_mosquitto(lab, program, DOCUMENT, subscribers, peer_events))
            works.append(_mosquitto(lab, program, PAYLOAD, subscribers, peer_events))
    return report(works, notes)


def _notes() -> list[str]:
    return [
        f"payload {PAYLOAD_BYTES} bytes, in its envelope about 1,036; every event distinct, "
        "validated, and committed to the node's log (sync) before it is delivered",
        "a query `true()` a subscriber: every event matches every subscriber",
        f"with {FURTHER:,} queries: distinct ones besides, in {SESSIONS} sessions of another "
        "process that count what they get: single aircraft (some only when high), ranges of flight "
        "numbers, boxes of height and speed",
        f"prebuilt: PUBLISH messages of {BATCH} events, written before the clock starts, over a "
        "real session; client library: one publish() an event, "
        f"at most {WINDOW:,} receipts awaited",
        "subscribers: real sessions, all in one process, that decode the headers of deliveries "
        "alone and check that every place came, once and in order",
        "time: from the first send to the last event at the last subscriber",
        "a parse: of one event by lxml, between the runs: how fast the machine was at that moment; "
        "a commit: events in one, on average",
    ]


def _of_activemq(version: str) -> list[str]:
    return [
        f"ActiveMQ {version}: STOMP, not persistent, `java {' '.join(JAVA_OPTIONS)}`, "
        f"{BROKER_OPTIONS}; the same queries as `XPATH` selectors, each a subscription of its own "
        "on one connection, and one connection that takes everything; one virtual machine for all",
        "ActiveMQ gets payloads alone: its selectors refuse to read a document with a DOCTYPE; "
        "every event has one; they let through as many messages as lxml says",
    ]


def _portions(lab: Lab, events: int) -> list[int]:
    """How many events each run sends; the first run only warms up."""
    return [500, 2_000] if lab.quick else [2_000] + [events] * RUNS


def _node(lab: Lab, name: str, subscribers: int, events: int, further: int) -> Work:
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
        beside = [_further(lab, node, further)] if further else []
        course = Course(node.pid, publisher, subscriber, subscribers, beside)
        flows, parses = _flows(lab, course, _label(name, further), portions)
        log = node_status(node.endpoint)["log"]
        heard = None
        for actor in beside:
            actor.go()
            counts = actor.hear("done", PATIENCE)
            heard = Further(further, sum(portions), counts["events"], counts["dropped"])
            actor.end()
        course.end()
        node.stop()
    return Work(
        name, subscribers, flows, parses, events_a_commit=log["last"] / log["commits"], beside=heard
    )


def _further(lab: Lab, node: NodeProcess, queries: int) -> Actor:
    """Queries besides, which flow when this returns."""
    lab.say(f"subscribing {queries:,} queries")
    task = {"endpoint": node.endpoint, "queries": queries, "sessions": SESSIONS}
    actor = Actor(lab.children, "subscribe_further", task)
    actor.hear("ready", PATIENCE)
    return actor


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


def _activemq(lab: Lab) -> list[Work]:
    works = []
    with lab.empty_folder() as folder:
        broker = ActiveMqProcess(lab.children, folder)
        for selectors, events in SELECTORS:
            # The first run is as long as the others: a virtual machine needs it.
            portions = [max(5, events // 20)] * 2 if lab.quick else [events] * (RUNS + 1)
            task: dict[str, Any] = {"port": broker.port, "portions": portions}
            subscriber = Actor(lab.children, "stomp_read", {**task, "queries": selectors})
            publisher = Actor(lab.children, "stomp_publish", task)
            course = Course(broker.pid, publisher, subscriber, 1)
            flows, parses = _flows(lab, course, _label(ACTIVEMQ, selectors), portions)
            course.end()
            delivered = expected(rare_queries(selectors), range(sum(portions)))
            beside = Further(selectors, sum(portions), delivered) if selectors else None
            works.append(Work(ACTIVEMQ, 1, flows, parses, beside=beside))
        broker.stop()
    return works


def _label(name: str, queries: int) -> str:
    return f"{name}, {queries:,} queries" if queries else name


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
