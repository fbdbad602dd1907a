"""Events a second through one node, also with many queries, and through other brokers."""

from __future__ import annotations

from typing import Any, Final

from benchmarks.actors.stomp_read import count_matches
from benchmarks.harness.activemq import (
    BROKER_OPTIONS,
    JAVA_OPTIONS,
    ActiveMqProcess,
    available,
)
from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.debian import Unavailable
from benchmarks.harness.flights import PAYLOAD_BYTES
from benchmarks.harness.flow import TIMEOUT, Flow, FlowRunner
from benchmarks.harness.mosquitto import MosquittoProcess, executable, version
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.node_status import read_status
from benchmarks.harness.report import Report
from benchmarks.harness.speed import measure_parse
from benchmarks.harness.work import ExtraQueries, Work
from benchmarks.node_report import (
    ACTIVEMQ,
    CLIENT,
    DOCUMENT,
    EXTRA_QUERIES,
    PAYLOAD,
    PREBUILT,
    report,
)
from benchmarks.workloads.flights import rare_queries

DESCRIPTION: Final = (
    "events a second through one node, prebuilt and by the client library; mosquitto and ActiveMQ"
)

#: Events in a PUBLISH message.
BATCH: Final = 500
#: Of the client library's user.
WINDOW: Final = 4_000
RUNS: Final = 3
#: For the extra queries.
SESSIONS: Final = 10
#: About two seconds each.
SELECTORS: Final = ((0, 60_000), (10, 6_000), (100, 800), (EXTRA_QUERIES, 80))


def run(context: BenchmarkContext) -> Report:
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
        notes += _activemq_notes(available())
        activemq = True
    except Unavailable as reason:
        notes.append(f"no peer that filters on content: {reason}")
    works: list[Work] = []
    # The machine's speed varies.
    for subscribers, events, peer_events in ((1, 60_000, 200_000), (10, 40_000, 60_000)):
        for further in (0, EXTRA_QUERIES):
            works.append(_measure_node(context, PREBUILT, subscribers, events, further))
            works.append(_measure_node(context, CLIENT, subscribers, events // 2, further))
        if activemq and subscribers == 1:
            works += _measure_activemq(context)
        if mosquitto:
            works.append(_measure_mosquitto(context, program, DOCUMENT, subscribers, peer_events))
            works.append(_measure_mosquitto(context, program, PAYLOAD, subscribers, peer_events))
    return report(works, notes)


def _notes() -> list[str]:
    return [
        f"payload {PAYLOAD_BYTES} bytes, in its envelope about 1,036; every event distinct, "
        "validated, and committed to the node's log (sync) before it is delivered",
        "a query `true()` a subscriber: every event matches every subscriber",
        f"with {EXTRA_QUERIES:,} queries: distinct extra ones in {SESSIONS} sessions of one "
        "process that count their deliveries: single aircraft (some only when high), ranges of "
        "flight numbers, boxes of height and speed",
        f"prebuilt: PUBLISH messages of {BATCH} events, written before the clock starts, over a "
        "real session; client library: one publish() an event, "
        f"at most {WINDOW:,} receipts awaited",
        "subscribers: real sessions, all in one process, that decode the headers of deliveries "
        "alone and check that every place came, once and in order",
        "time: from the first send to the last event at the last subscriber",
        "a parse: of one event by lxml, between the runs: how fast the machine was at that moment; "
        "a commit: events in one, on average",
    ]


def _activemq_notes(version: str) -> list[str]:
    return [
        f"ActiveMQ {version}: STOMP, not persistent, `java {' '.join(JAVA_OPTIONS)}`, "
        f"{BROKER_OPTIONS}; the same queries as `XPATH` selectors, each a subscription of its own "
        "on one connection, and one connection that takes everything; one virtual machine for all",
        "ActiveMQ gets payloads alone: its selectors refuse to read a document with a DOCTYPE; "
        "every event has one; they let through as many messages as lxml says",
    ]


def _portions(context: BenchmarkContext, events: int) -> list[int]:
    """The first run only warms up."""
    return [500, 2_000] if context.quick else [2_000] + [events] * RUNS


def _measure_node(
    context: BenchmarkContext, name: str, subscribers: int, events: int, further: int
) -> Work:
    portions = _portions(context, events)
    with context.empty_folder() as folder:
        node = NodeProcess(context.children, folder)
        task: dict[str, Any] = {"endpoint": node.endpoint, "portions": portions}
        publisher = (
            Actor(context.children, "publish_prebuilt", {**task, "batch": BATCH})
            if name == PREBUILT
            else Actor(context.children, "publish_client", {**task, "window": WINDOW})
        )
        subscriber = Actor(context.children, "subscribe", {**task, "subscribers": subscribers})
        extra = [_start_extra_queries(context, node, further)] if further else []
        runner = FlowRunner(node.pid, publisher, subscriber, subscribers, extra)
        flows, parses = _run_portions(context, runner, _label(name, further), portions)
        log = read_status(node.endpoint)["log"]
        extra_counts = None
        for actor in extra:
            actor.start_run()
            counts = actor.wait_for("done", TIMEOUT)
            extra_counts = ExtraQueries(further, sum(portions), counts["events"], counts["dropped"])
            actor.stop()
        runner.stop()
        node.stop()
    return Work(
        name,
        subscribers,
        flows,
        parses,
        events_a_commit=log["last"] / log["commits"],
        extra_queries=extra_counts,
    )


def _start_extra_queries(context: BenchmarkContext, node: NodeProcess, queries: int) -> Actor:
    context.report_progress(f"subscribing {queries:,} queries")
    task = {"endpoint": node.endpoint, "queries": queries, "sessions": SESSIONS}
    actor = Actor(context.children, "subscribe_rare", task)
    actor.wait_for("ready", TIMEOUT)
    return actor


def _measure_mosquitto(
    context: BenchmarkContext, program: str, name: str, subscribers: int, events: int
) -> Work:
    portions = _portions(context, events)
    with context.empty_folder() as folder:
        broker = MosquittoProcess(context.children, program, folder)
        task = {"port": broker.port, "portions": portions}
        subscriber = Actor(context.children, "mqtt_read", {**task, "subscribers": subscribers})
        publisher = Actor(context.children, "mqtt_publish", {**task, "envelope": name == DOCUMENT})
        runner = FlowRunner(broker.pid, publisher, subscriber, subscribers)
        flows, parses = _run_portions(context, runner, name, portions)
        runner.stop()
        broker.stop()
    return Work(name, subscribers, flows, parses)


def _measure_activemq(context: BenchmarkContext) -> list[Work]:
    works = []
    with context.empty_folder() as folder:
        broker = ActiveMqProcess(context.children, folder)
        for selectors, events in SELECTORS:
            # To warm up the virtual machine.
            portions = [max(5, events // 20)] * 2 if context.quick else [events] * (RUNS + 1)
            task: dict[str, Any] = {"port": broker.port, "portions": portions}
            subscriber = Actor(context.children, "stomp_read", {**task, "queries": selectors})
            publisher = Actor(context.children, "stomp_publish", task)
            runner = FlowRunner(broker.pid, publisher, subscriber, 1)
            flows, parses = _run_portions(context, runner, _label(ACTIVEMQ, selectors), portions)
            runner.stop()
            delivered = count_matches(rare_queries(selectors), range(sum(portions)))
            extra = ExtraQueries(selectors, sum(portions), delivered) if selectors else None
            works.append(Work(ACTIVEMQ, 1, flows, parses, extra_queries=extra))
        broker.stop()
    return works


def _label(name: str, queries: int) -> str:
    return f"{name}, {queries:,} queries" if queries else name


def _run_portions(
    context: BenchmarkContext, runner: FlowRunner, name: str, portions: list[int]
) -> tuple[list[Flow], list[float]]:
    flows, parses = [], []
    for index, events in enumerate(portions):
        what = f"run {index} of {len(portions) - 1}" if index else "warming up"
        context.report_progress(f"{name} 1->{runner.subscribers}: {what}")
        flows.append(runner.run(events))
        parses.append(measure_parse())
    return flows[1:], parses[1:]
