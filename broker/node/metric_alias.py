"""Metrics under their names of the last version, beside their present ones."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import Metric

#: Present name -> name in the last version.
PREVIOUS_NAMES: Final = {
    "xmlbroker_archive_catch_up_events": "xmlbroker_stood_in_events",
    "xmlbroker_handovers": "xmlbroker_hand_offs",
    "xmlbroker_interest_entries": "xmlbroker_profile_wants",
    "xmlbroker_interest_queries": "xmlbroker_wants_installed",
    "xmlbroker_interest_widened": "xmlbroker_wants_widened",
    "xmlbroker_refused_handshakes": "xmlbroker_refused_greetings",
    "xmlbroker_restored_events": "xmlbroker_returned_events",
    "xmlbroker_invalid_relayed_events": "xmlbroker_turned_away_events",
}


def add_previous_names(metrics: Iterable[Metric]) -> Iterator[Metric]:
    for metric in metrics:
        yield metric
        previous = PREVIOUS_NAMES.get(metric.name)
        if previous is not None:
            alias = copy.copy(metric)
            alias.name = previous
            alias.documentation = f"The former name of {metric.name}."
            alias.samples = [
                sample._replace(name=sample.name.replace(metric.name, previous, 1))
                for sample in metric.samples
            ]
            yield alias
