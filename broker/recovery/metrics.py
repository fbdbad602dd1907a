"""Prometheus metrics of recoveries and the archive. Labels are bounded: sources and outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

#: Counters of the archiver since its process began: the end of the metric's name, and its text.
_ARCHIVED = {
    "events": "Events written to the archive.",
    "files": "Files written to the archive.",
    "bytes": "Bytes written to the archive.",
    "lost": "Places that retention took from the log before they were in the archive.",
}


def recovery_metrics(report: Mapping[str, Any]) -> Iterator[Metric]:
    """Turn a `recovery_snapshot` into metrics."""
    recoveries = report["recoveries"]
    yield CounterMetricFamily(
        "xmlbroker_recoveries", "Recoveries begun.", value=recoveries["begun"]
    )
    yield CounterMetricFamily(
        "xmlbroker_recoveries_cancelled",
        "Of these, ended before their end.",
        value=recoveries["cancelled"],
    )
    yield CounterMetricFamily(
        "xmlbroker_recoveries_failed",
        "Of these, that the archive could not be searched for.",
        value=recoveries["failed"],
    )
    yield GaugeMetricFamily(
        "xmlbroker_recoveries_under_way", "Recoveries now.", value=recoveries["under_way"]
    )
    yield CounterMetricFamily(
        "xmlbroker_recovery_lost_places",
        "Places that a recovery found nowhere.",
        value=recoveries["lost_places"],
    )
    yield _counter(
        "xmlbroker_recovered_events", "Events that were found.", "source", recoveries["events"]
    )
    yield CounterMetricFamily(
        "xmlbroker_stood_in_events",
        "Events of the archive that their nodes, which are gone, could not send.",
        value=recoveries["stood_in"],
    )
    yield CounterMetricFamily(
        "xmlbroker_silent_origin_events",
        "Events of origins that send nothing any more, from other nodes.",
        value=recoveries["of_silent_origins"],
    )
    yield CounterMetricFamily(
        "xmlbroker_silent_origin_lost_places",
        "Places of such origins that no node has.",
        value=recoveries["lost_of_silent_origins"],
    )
    yield CounterMetricFamily(
        "xmlbroker_returned_events",
        "Events that came back after a start from an older copy of the log.",
        value=recoveries["returned"],
    )
    yield CounterMetricFamily(
        "xmlbroker_branch_lost_places",
        "Places of other branches of the log whose events nobody has.",
        value=recoveries["lost_on_branches"],
    )
    yield _counter("xmlbroker_hand_offs", "Subscriptions that moved.", "what", report["hand_offs"])
    pages = report["pages"]
    yield CounterMetricFamily(
        "xmlbroker_pages_served", "Pages of the log for other nodes.", value=pages["served"]
    )
    yield CounterMetricFamily(
        "xmlbroker_pages_denied_events",
        "Events left out of these: no way is cleared for them.",
        value=pages["denied"],
    )
    if report["archive"] is not None:
        yield from _archive(report["archive"])
    if report["replays"] is not None:
        yield from _replays(report["replays"])


def _archive(archive: Mapping[str, Any]) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "xmlbroker_archiver_up",
        "Whether events are archived: 1, or 0 with a problem.",
        value=int(archive["runs"] and not archive["problem"]),
    )
    yield CounterMetricFamily(
        "xmlbroker_archiver_restarts", "Archivers that ended.", value=archive["restarts"]
    )
    if archive["behind"] is not None:
        yield GaugeMetricFamily(
            "xmlbroker_archive_behind",
            "Places of the log that are not in the archive yet.",
            value=archive["behind"],
        )
    yield GaugeMetricFamily(
        "xmlbroker_log_held",
        "Whether the log keeps own events beyond its bounds, since the archive lacks them.",
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
        "xmlbroker_replayer_up", "Whether the replay process runs.", value=int(replays["runs"])
    )
    yield CounterMetricFamily(
        "xmlbroker_replayer_processes", "Replay processes begun.", value=replays["processes"]
    )
    yield GaugeMetricFamily(
        "xmlbroker_replays_under_way", "Replays from the archive now.", value=replays["under_way"]
    )


def _counter(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family
