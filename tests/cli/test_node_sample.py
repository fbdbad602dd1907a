from __future__ import annotations

import pytest

from broker.cli.node_sample import Sample, compute_rates, number_at
from tests.cli.network_status import status_of


def sample(at: float, **said: int) -> Sample:
    return Sample("tcp:a:1", at, status_of("a1", **said))


def test_a_rate_is_the_increase_per_second() -> None:
    found = compute_rates(sample(10.0), sample(12.0, published=30, sent=150))
    assert found["published"] == 10.0
    assert found["c1/sent"] == 25.0
    assert found["c1/sent_bytes"] == 25 * 10 * 1024
    assert found["frames"] == found["delivered"] == 0.0


def test_counters_that_fell_or_are_new_have_no_rate() -> None:
    found = compute_rates(sample(10.0, published=50), sample(12.0, published=3))
    assert "published" not in found and found["frames"] == 0.0
    assert compute_rates(None, sample(1.0)) == {}
    assert compute_rates(Sample("tcp:a:1", 1.0, error="away"), sample(2.0)) == {}
    assert compute_rates(sample(1.0), Sample("tcp:a:1", 2.0, error="away")) == {}


@pytest.mark.parametrize("answer", [{}, {"network": None}, {"network": {"links": [None, 3]}}])
def test_missing_counters_of_another_version_are_zero(answer: dict[str, object]) -> None:
    found = Sample("tcp:a:1", 1.0, answer).counters()
    names = ("published", "delivered", "relayed", "archived", "recovered", "frames")
    assert found == dict.fromkeys(names, 0)
    assert number_at(answer, "network", "frames") == 0
