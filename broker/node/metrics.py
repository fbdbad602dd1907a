"""Metrics of a node for Prometheus.

Values are read on request, so the hot path only increments integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from broker.cluster.metrics import network_metrics
from broker.limit_registry import Limit
from broker.log.repair import OUTCOMES
from broker.matching.contract import TypeCounters
from broker.node.metric_alias import add_previous_names
from broker.node.status import (
    InspectedNode,
    build_network_status,
    build_recovery_status,
    read_memory,
    sum_delivery_outcomes,
)
from broker.recovery.metrics import recovery_metrics
from broker.subscriptions.durable_report import build_durable_report


class NodeCollector(Collector):
    """Reads a node's counters; one closed set of outcomes each way (T40)."""

    def __init__(self, node: InspectedNode) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        return add_previous_names(self._collect())

    def _collect(self) -> Iterator[Metric]:
        node = self._node
        outcomes = node.input.outcomes
        published = CounterMetricFamily(
            "xmlbroker_published_events", "Events that publishers sent.", labels=["outcome"]
        )
        published.add_metric(["accepted"], outcomes.accepted)
        published.add_metric(["duplicate"], outcomes.duplicate)
        published.add_metric(["not-taken"], outcomes.not_taken)
        for code, count in outcomes.refused.items():
            published.add_metric([code], count)
        yield published
        delivered = CounterMetricFamily(
            "xmlbroker_subscription_events",
            "Events as subscriptions saw them.",
            labels=["outcome"],
        )
        for outcome, count in attrs.asdict(sum_delivery_outcomes(node)).items():
            if outcome not in ("seen", "elsewhere"):
                delivered.add_metric([outcome], count)
        yield delivered
        dropped = CounterMetricFamily(
            "xmlbroker_dropped_events",
            "Events that subscriptions dropped, by the policy of their queue.",
            labels=["policy"],
        )
        for policy, count in node.output.count_dropped_by_policy().items():
            dropped.add_metric([policy], count)
        yield dropped
        notices = CounterMetricFamily(
            "xmlbroker_type_notices",
            "Notices of changed event types to subscribers.",
            labels=["outcome"],
        )
        notices.add_metric(["sent"], node.notices.counts.sent)
        notices.add_metric(["dropped"], node.notices.counts.dropped)
        yield notices
        yield CounterMetricFamily(
            "xmlbroker_new_versions",
            "Newer versions of known event types.",
            value=node.notices.counts.versions,
        )
        yield from type_metrics(node.matcher.type_counters())
        reception = node.acceptor
        for name, text, counts in (
            (
                "xmlbroker_refused_connections",
                "Connections refused.",
                reception.refused_connections,
            ),
            (
                "xmlbroker_refused_subscriptions",
                "Subscriptions refused.",
                node.subscription_requests.refused_subscriptions,
            ),
            (
                "xmlbroker_broken_connections",
                "Connections of sessions broken.",
                reception.broken_connections,
            ),
            ("xmlbroker_ended_sessions", "Sessions that the node ended.", reception.ended_sessions),
        ):
            family = CounterMetricFamily(name, text, labels=["code"])
            for code, count in counts.items():
                family.add_metric([code], count)
            yield family
        yield from limit_metrics(node.limit_registry)
        bounds = node.event_log.bounds
        resident, private = read_memory()
        gauges = {
            "xmlbroker_log_bytes": ("Size of the event log.", bounds.used_bytes),
            "xmlbroker_log_events": ("Events in the log.", bounds.last - bounds.first + 1),
            "xmlbroker_log_writable": (
                "Whether the log can be written: 1, or 0 while nothing is acknowledged.",
                int(node.event_log.is_writable),
            ),
            "xmlbroker_log_pending_bytes": ("Waiting for a commit.", node.event_log.pending_bytes),
            "xmlbroker_sessions": ("Client sessions.", len(list(node.acceptor.sessions))),
            "xmlbroker_resident_bytes": ("Memory of the process.", resident),
            "xmlbroker_private_bytes": ("Memory without mapped files.", private),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(name, text, value=value)
        yield CounterMetricFamily(
            "xmlbroker_log_commits", "Commits begun.", value=node.event_log.commits
        )
        yield CounterMetricFamily(
            "xmlbroker_log_failures", "Commits that failed.", value=node.event_log.failures
        )
        yield from durable_metrics(build_durable_report(node.durables))
        damage = CounterMetricFamily(
            "xmlbroker_log_damage", "Damage in the event log, by outcome.", labels=["outcome"]
        )
        for outcome in OUTCOMES:
            damage.add_metric([outcome], node.event_log.repairs.counts[outcome])
        yield damage
        report = build_network_status(node)
        if report is not None:
            yield from network_metrics(report)
        if node.transports is not None:
            yield from stack_metrics(node.transports.snapshot())
        yield from recovery_metrics(build_recovery_status(node))


def limit_metrics(limits: Iterable[Limit]) -> Iterator[Metric]:
    """Yield bound, present use and number of times reached of each limit."""
    used = GaugeMetricFamily(
        "xmlbroker_limit_used",
        "Present use of a limited resource, by the holder nearest to its bound.",
        labels=["limit"],
    )
    bound = GaugeMetricFamily(
        "xmlbroker_limit_bound", "Bound of a limited resource.", labels=["limit"]
    )
    reached = CounterMetricFamily(
        "xmlbroker_limit_reached",
        "Times that something was refused, dropped, delayed or replaced at the bound.",
        labels=["limit"],
    )
    for limit in limits:
        used.add_metric([limit.name], limit.find_used())
        bound.add_metric([limit.name], limit.find_bound())
        reached.add_metric([limit.name], limit.reached)
    yield from (used, bound, reached)


def stack_metrics(stacks: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    """Yield counts of stream transports, of which the configuration bounds the number."""
    events = CounterMetricFamily(
        "xmlbroker_stack_events",
        "Events that a stack carried. `mspaces` counts received ones as relayed events.",
        labels=["stack", "direction"],
    )
    stopped = GaugeMetricFamily(
        "xmlbroker_stack_stopped",
        "Whether an error has stopped a stack: `status` has the reason.",
        labels=["stack"],
    )
    parents = _ParentMetrics()
    for stack in stacks:
        parents.add(stack["name"], stack.get("parents", ()))
        for direction in ("published", "received"):
            if direction in stack:
                events.add_metric([stack["name"], direction], stack[direction])
        stopped.add_metric([stack["name"]], int(bool(stack["error"])))
    yield from (events, stopped, *parents.families())


class _ParentMetrics:
    """Contributions of the parents of a node, for stacks with redundancy."""

    def __init__(self) -> None:
        labels = ["stack", "parent"]
        self._events = CounterMetricFamily(
            "xmlbroker_stack_parent_events",
            "Events by how a parent brought them; ranges that it lost or skipped.",
            labels=[*labels, "outcome"],
        )
        self._losses = CounterMetricFamily(
            "xmlbroker_stack_saved_losses",
            "Events that this parent alone brought at first.",
            labels=labels,
        )
        self._seconds = CounterMetricFamily(
            "xmlbroker_stack_saved_seconds",
            "Time by which other copies came later than those of this parent.",
            labels=labels,
        )

    def add(self, stack: str, parents: Iterable[Mapping[str, Any]]) -> None:
        for parent in parents:
            name = [stack, parent["name"]]
            for outcome in ("first", "duplicate", "repaired", "lost", "skipped"):
                self._events.add_metric([*name, outcome], parent.get(outcome, 0))
            self._losses.add_metric(name, parent.get("saved_losses", 0))
            self._seconds.add_metric(name, parent.get("saved_ms", 0) / 1000)

    def families(self) -> Iterator[Metric]:
        """Yield nothing if no stack has parents."""
        yield from (each for each in (self._events, self._losses, self._seconds) if each.samples)


def durable_metrics(report: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield states, and a bounded number of lags."""
    count = GaugeMetricFamily(
        "xmlbroker_durable_subscriptions", "Durable subscriptions.", labels=["state"]
    )
    for state, number in report["states"].items():
        count.add_metric([state], number)
    yield count
    for figure, text in (
        ("events", "Events of the log that a durable subscription has not processed."),
        ("bytes", "Estimated size of these in the log."),
        ("seconds", "Since the oldest of them was logged."),
        ("before_log", "Places behind its position that the log no longer holds."),
    ):
        lag = GaugeMetricFamily(
            f"xmlbroker_durable_lag_{figure}",
            f"{text} Of the subscriptions furthest behind.",
            labels=["client", "name"],
        )
        for each in report["furthest_behind"]:
            lag.add_metric([each["client"], each["name"]], each[figure])
        yield lag


def type_metrics(types: Iterable[TypeCounters]) -> Iterator[Metric]:
    by_type = ["type", "version"]
    events = CounterMetricFamily(
        "xmlbroker_type_events", "Events by how they were read.", labels=[*by_type, "path"]
    )
    seconds = CounterMetricFamily(
        "xmlbroker_type_seconds",
        "Time spent on events; `undecided` is part of `recognised`.",
        labels=[*by_type, "path"],
    )
    undecided = CounterMetricFamily(
        "xmlbroker_type_undecided_evaluations",
        "Queries evaluated one by one on recognised events.",
        labels=by_type,
    )
    shapes = GaugeMetricFamily("xmlbroker_type_shapes", "Shapes known.", labels=by_type)
    suspended = GaugeMetricFamily(
        "xmlbroker_type_suspended", "Whether its shapes do not recur: parsed.", labels=by_type
    )
    for figures in types:
        name = [figures.type, figures.version]
        for path in ("recognised", "parsed", "refused"):
            events.add_metric([*name, path], getattr(figures, path))
        for path in ("recognised", "undecided", "parsed"):
            seconds.add_metric([*name, path], getattr(figures, f"{path}_seconds"))
        undecided.add_metric(name, figures.undecided)
        shapes.add_metric(name, figures.shapes)
        suspended.add_metric(name, int(figures.suspended))
    yield from (events, seconds, undecided, shapes, suspended)
