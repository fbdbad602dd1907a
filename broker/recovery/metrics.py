"""Prometheus metrics of recoveries and the archive. Labels are sources and outcomes, so bounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

#: Counters since the archiver began.
_ARCHIVED = {
    "events": "Events written to the archive.",
    "files": "Files written to the archive.",
    "bytes": "Bytes written to the archive.",
    "lost": "Places that retention removed from the log before they were archived.",
}


def recovery_metrics(report: Mapping[str, Any]) -> Iterator[Metric]:
    recoveries = report["recoveries"]
    yield CounterMetricFamily(
        "xmlbroker_recoveries", "Recoveries started.", value=recoveries["begun"]
    )
    yield CounterMetricFamily(
        "xmlbroker_recoveries_cancelled",
        "Cancelled recoveries.",
        value=recoveries["cancelled"],
    )
    yield CounterMetricFamily(
        "xmlbroker_recoveries_failed",
        "Recoveries that failed because the archive was not readable.",
        value=recoveries["failed"],
    )
    yield GaugeMetricFamily(
        "xmlbroker_recoveries_under_way", "Active recoveries.", value=recoveries["under_way"]
    )
    yield CounterMetricFamily(
        "xmlbroker_recovery_lost_places",
        "Places that a recovery found in no source.",
        value=recoveries["lost_places"],
    )
    yield _counter(
        "xmlbroker_recovered_events", "Recovered events.", "source", recoveries["events"]
    )
    yield CounterMetricFamily(
        "xmlbroker_archive_catch_up_events",
        "Events from the archive that their origins did not send.",
        value=recoveries["stood_in"],
    )
    yield CounterMetricFamily(
        "xmlbroker_silent_origin_events",
        "Events of silent origins from other nodes.",
        value=recoveries["of_silent_origins"],
    )
    yield CounterMetricFamily(
        "xmlbroker_silent_origin_lost_places",
        "Places of silent origins that no node has.",
        value=recoveries["lost_of_silent_origins"],
    )
    yield CounterMetricFamily(
        "xmlbroker_restored_events",
        "Own events restored after a start from an older copy of the log.",
        value=recoveries["returned"],
    )
    yield CounterMetricFamily(
        "xmlbroker_branch_lost_places",
        "Places of other branches of the log that no source has.",
        value=recoveries["lost_on_branches"],
    )
    yield _counter(
        "xmlbroker_handovers",
        "Durable subscriptions handed over or taken over, and requests and answers without proof.",
        "what",
        report["hand_offs"],
    )
    pages = report["pages"]
    yield CounterMetricFamily(
        "xmlbroker_pages_served", "Pages of the log served to other nodes.", value=pages["served"]
    )
    yield CounterMetricFamily(
        "xmlbroker_pages_denied_events",
        "Events left out of served pages because no route is cleared for them.",
        value=pages["denied"],
    )
    if report["archive"] is not None:
        yield from _archive(report["archive"])
    if report["replays"] is not None:
        yield from _replays(report["replays"])


def _archive(archive: Mapping[str, Any]) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "xmlbroker_archiver_up",
        "1 if events are archived, else 0.",
        value=int(archive["runs"] and not archive["problem"]),
    )
    yield CounterMetricFamily(
        "xmlbroker_archiver_restarts", "Archiver processes that ended.", value=archive["restarts"]
    )
    if archive["behind"] is not None:
        yield GaugeMetricFamily(
            "xmlbroker_archive_behind",
            "Places of the log that are not archived yet.",
            value=archive["behind"],
        )
    yield GaugeMetricFamily(
        "xmlbroker_log_held",
        "1 if the log keeps unarchived own events beyond its limits.",
        value=int(archive["held_behind"] is not None),
    )
    yield CounterMetricFamily(
        "xmlbroker_log_removed_unarchived",
        "Own events that retention removed before they were archived.",
        value=archive["removed_unarchived"],
    )
    for key, text in _ARCHIVED.items():
        if key in archive:
            yield CounterMetricFamily(f"xmlbroker_archived_{key}", text, value=archive[key])


def _replays(replays: Mapping[str, Any]) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "xmlbroker_replayer_up", "1 if the replayer runs.", value=int(replays["runs"])
    )
    yield CounterMetricFamily(
        "xmlbroker_replayer_processes", "Replayer processes started.", value=replays["processes"]
    )
    yield GaugeMetricFamily(
        "xmlbroker_replays_under_way", "Active replays.", value=replays["under_way"]
    )


def _counter(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family
