"""One checker of the five properties, and of joins and leaves, for all variants (RCM R49; L1).

It judges the record of a run, and knows nothing of a variant's protocol. For the sequencer, global
order is judged only where the reported statuses are transitive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker.testing.order.properties.awareness import awareness
from broker.testing.order.properties.global_order import global_order, places, transcripts
from broker.testing.order.properties.reliability import fifo, reliability
from broker.testing.order.properties.robustness import robustness
from broker.testing.order.properties.sites import sites
from broker.testing.order.run import Run
from broker.testing.order.timeline import Timeline
from broker.testing.order.violation import Violation

RULES: tuple[Callable[[Run, Timeline], Iterator[Violation]], ...] = (
    awareness,
    reliability,
    fifo,
    places,
    transcripts,
    global_order,
    robustness,
    sites,
)


def check(run: Run) -> list[Violation]:
    """Return all violations in the order of their times."""
    timeline = Timeline(run)
    found = [violation for rule in RULES for violation in rule(run, timeline)]
    return sorted(found, key=lambda violation: violation.time)
