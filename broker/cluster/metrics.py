"""Prometheus metrics of a node's network. Outcomes or the number of links bound all labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_BOTH_WAYS = (
    ("xmlbroker_link_messages", "Messages over links.", ("sent", "received")),
    ("xmlbroker_link_bytes", "Bytes of messages over links.", ("sent_bytes", "received_bytes")),
)
_OF_LINKS = (
    ("xmlbroker_link_full", "Messages dropped because the link was full.", "full"),
    ("xmlbroker_link_reconnections", "Reconnections of links.", "reconnections"),
)


def network_metrics(report: Mapping[str, Any]) -> Iterator[Metric]:
    yield from _links(report["links"])
    group = dict(report["group"] or {})
    if group:
        members = group.pop("members")
        yield _gauge(
            "xmlbroker_group_members", "Members that receive this node's multicast.", members
        )
        yield _counter("xmlbroker_group_frames", "Frames in the group.", "what", group)
    yield _counter(
        "xmlbroker_relayed_events",
        "Events received from other nodes for this one.",
        "outcome",
        _outcomes(report["relayed"]),
    )
    yield _counter(
        "xmlbroker_invalid_relayed_events",
        "Invalid events in transit or entering a unit, not forwarded.",
        "code",
        report["relayed"]["turned_away"],
    )
    yield _gauge(
        "xmlbroker_relayed_waiting_bytes",
        "Bytes of received events that wait for matching.",
        report["waiting_bytes"],
    )
    interest = report["wants"]
    installed = sum(interest["installed"].values())
    yield _gauge(
        "xmlbroker_interest_queries",
        "Queries that stand for the interest of other nodes.",
        installed,
    )
    yield CounterMetricFamily(
        "xmlbroker_interest_widened",
        "Slow queries of other nodes, widened to whole streams.",
        value=interest["widened"],
    )
    for name, text, key in (
        ("xmlbroker_refused_handshakes", "Refused handshakes of nodes.", "refused_greetings"),
        ("xmlbroker_broken_links", "Links ended because of errors of the peer.", "broken_links"),
    ):
        yield _counter(name, text, "code", report[key])
    yield _counter(
        "xmlbroker_forged",
        "Frames and pages with an event that its origin has not signed.",
        "sender",
        report["forged"],
    )
    yield _counter(
        "xmlbroker_signed_twice",
        "Places for which an origin has signed two events.",
        "origin",
        report["signed_twice"],
    )
    if report["address"] is not None:
        yield from _of_a_member(report)


def _of_a_member(report: Mapping[str, Any]) -> Iterator[Metric]:
    yield _counter("xmlbroker_frames", "Frames of events.", "what", report["frames"])
    yield _counter(
        "xmlbroker_unanswered_pages",
        "Repeated page requests, by the neighbour on the route without an answer.",
        "neighbour",
        report["unanswered"],
    )
    arrivals = dict(report["arrivals"])
    waiting = arrivals.pop("waiting")
    yield _gauge("xmlbroker_origins_waiting", "Origins with a missing range.", waiting)
    yield _counter("xmlbroker_ranges", "Ranges of events for this node.", "what", arrivals)
    yield CounterMetricFamily(
        "xmlbroker_network_denied",
        "Events without a route that is cleared for them.",
        value=report["denied"],
    )
    members = GaugeMetricFamily(
        "xmlbroker_network_members", "Nodes of the cluster on this node's map.", labels=["state"]
    )
    for state, count in _states(report["members"]).items():
        members.add_metric([state], count)
    yield members
    yield _gauge("xmlbroker_network_units", "Other units with a route.", len(report["units"]))
    yield _gauge("xmlbroker_network_leads", "Units that this node leads.", len(report["leads"]))
    yield _gauge(
        "xmlbroker_interest_entries",
        "Entries of the node's own interest.",
        report["profile"]["wants"],
    )
    tables = dict(report["tables"])
    counts = tables.pop("counts")
    for key, value in tables.items():
        name = f"xmlbroker_tables_{key}" if key != "tables" else "xmlbroker_tables"
        yield _gauge(name, f"Tables of the network on this node: {key}.", value)
    yield _counter("xmlbroker_table_messages", "Table messages by outcome.", "what", counts)


def _outcomes(relayed: Mapping[str, Any]) -> dict[str, int]:
    apart = ("received", "refused", "turned_away")
    outcomes = {key: count for key, count in relayed.items() if key not in apart}
    outcomes |= relayed["refused"]
    return {key.replace("_", "-"): count for key, count in outcomes.items()}


def _states(members: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    states = {"reachable": 0, "unreachable": 0, "draining": 0}
    for member in members:
        states["reachable" if member["reachable"] else "unreachable"] += 1
        states["draining"] += bool(member["draining"])
    return states


def _links(links: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    up = GaugeMetricFamily(
        "xmlbroker_link_up", "Whether the link is up.", labels=["neighbour", "transport"]
    )
    for link in links:
        up.add_metric([link["node"], link["transport"]], int(link["up"]))
    yield up
    for name, text, keys in _BOTH_WAYS:
        family = CounterMetricFamily(name, text, labels=["neighbour", "direction"])
        for link in links:
            for key, direction in zip(keys, ("sent", "received"), strict=True):
                family.add_metric([link["node"], direction], link[key])
        yield family
    for name, text, key in _OF_LINKS:
        yield _counter(name, text, "neighbour", {link["node"]: link[key] for link in links})
    datagrams = CounterMetricFamily(
        "xmlbroker_link_datagrams",
        "Datagrams of links over UDP, by outcome.",
        labels=["neighbour", "what"],
    )
    for link in links:
        for what, count in (link["corrections"] or {}).items():
            datagrams.add_metric([link["node"], what], count)
    yield datagrams


def _counter(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, count in counts.items():
        family.add_metric([key], count)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
