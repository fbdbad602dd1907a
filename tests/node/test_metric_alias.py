from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from broker.node.metric_alias import PREVIOUS_NAMES, add_previous_names


def test_a_renamed_metric_has_the_same_values_under_both_names() -> None:
    renamed = CounterMetricFamily("xmlbroker_handovers", "Handovers.", labels=["what"])
    renamed.add_metric(["taken_over"], 3)
    kept = GaugeMetricFamily("xmlbroker_sessions", "Sessions.", value=1)
    new, old, other = add_previous_names([renamed, kept])
    assert (new, other) == (renamed, kept)
    assert old.name == PREVIOUS_NAMES[new.name] == "xmlbroker_hand_offs"
    (now,), (before,) = new.samples, old.samples
    assert now.name == "xmlbroker_handovers_total"
    assert before == now._replace(name="xmlbroker_hand_offs_total")
