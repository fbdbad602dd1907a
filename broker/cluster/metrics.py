"""A network's figures for Prometheus. Labels are bounded: outcomes, or as many as links may be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

#: Of a link: the metric's name, what it says, and the keys of the report with their direction.
_BOTH_WAYS = (
    ("xmlbroker_link_messages", "Messages over links.", ("sent", "received")),
    ("xmlbroker_link_bytes", "Bytes of messages over links.", ("sent_bytes", "received_bytes")),
)
_OF_LINKS = (
    ("xmlbroker_link_full", "Messages that a full link did not take.", "full"),
    ("xmlbroker_link_reconnections", "Connections that came again.", "reconnections"),
)


def network_metrics(report: Mapping[str, Any]) -> Iterator[Metric]:
    """What `broker.cluster.network_snapshot.network_snapshot` gave, as metrics."""
    yield from _links(report["links"])
    group = dict(report["group"] or {})
    if group:
        members = group.pop("members")
        yield _gauge("xmlbroker_group_members", "Who hears the node's group.", members)
        yield _counter("xmlbroker_group_frames", "Frames in the group.", "what", group)
    yield _counter(
        "xmlbroker_relayed_events",
        "Events of other nodes that came for this one.",
        "outcome",
        _outcomes(report["relayed"]),
    )
    yield _counter(
        "xmlbroker_turned_away_events",
        "Events that were to pass here, or to enter, and go no further.",
        "code",
        report["relayed"]["turned_away"],
    )
    yield _gauge(
        "xmlbroker_relayed_waiting_bytes", "Of those, waiting here.", report["waiting_bytes"]
    )
    interest = report["wants"]
    installed = sum(interest["installed"].values())
    yield _gauge("xmlbroker_wants_installed", "Queries that stand for others' wants.", installed)
    yield CounterMetricFamily(
        "xmlbroker_wants_widened", "Of those, too slow, and made wider.", value=interest["widened"]
    )
    for name, text, key in (
        ("xmlbroker_refused_greetings", "Greetings of nodes refused.", "refused_greetings"),
        ("xmlbroker_broken_links", "Links ended for what the peer did.", "broken_links"),
    ):
        yield _counter(name, text, "code", report[key])
    if report["address"] is not None:
        yield from _of_a_member(report)


def _of_a_member(report: Mapping[str, Any]) -> Iterator[Metric]:
    yield _counter("xmlbroker_frames", "Frames of events.", "what", report["frames"])
    arrivals = dict(report["arrivals"])
    waiting = arrivals.pop("waiting")
    yield _gauge("xmlbroker_origins_waiting", "Origins of which something is missing.", waiting)
    yield _counter("xmlbroker_ranges", "Ranges of events for this node.", "what", arrivals)
    yield CounterMetricFamily(
        "xmlbroker_network_denied", "Wanted where no way is cleared.", value=report["denied"]
    )
    members = GaugeMetricFamily(
        "xmlbroker_network_members", "Nodes of the cluster, by this node's map.", labels=["state"]
    )
    for state, count in _states(report["members"]).items():
        members.add_metric([state], count)
    yield members
    yield _gauge("xmlbroker_network_units", "Other units in reach.", len(report["units"]))
    yield _gauge("xmlbroker_network_leads", "Units that it speaks for.", len(report["leads"]))
    yield _gauge("xmlbroker_profile_wants", "What the node asks for.", report["profile"]["wants"])
    tables = dict(report["tables"])
    counts = tables.pop("counts")
    for key, value in tables.items():
        name = f"xmlbroker_tables_{key}" if key != "tables" else "xmlbroker_tables"
        yield _gauge(name, f"Tables of the network held here: {key}.", value)
    yield _counter("xmlbroker_table_messages", "What became of tables.", "what", counts)


def _outcomes(relayed: Mapping[str, Any]) -> dict[str, int]:
    """By outcome; what was refused by its error codes, as among publications."""
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
        "Datagrams of links over UDP that something became of.",
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
