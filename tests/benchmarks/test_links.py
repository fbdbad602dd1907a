from __future__ import annotations

from benchmarks.links import KINDS, SIZES, Run, report


def runs(kind: str, size: int, loss: float, *rates: float) -> list[Run]:
    return [Run(kind, size, loss, rate, 4.0, 5.0, 1) for rate in rates]


def test_the_median_run_counts_and_loss_is_set_against_none() -> None:
    told = report(
        {
            (kind, size, loss): runs(kind, size, loss, 10_000, 40_000, 50_000)
            if not loss
            else runs(kind, size, loss, 20_000, 10_000, 30_000)
            for kind, losses in KINDS
            for size in SIZES
            for loss in losses
        }
    )
    rows = {tuple(row[:3]): row for row in told.sheets[0].rows}
    assert len(rows) == 2 + 8 + 8
    assert rows["udp", "262", "0%"][3:7] == ("40,000", "10,000-50,000", "10.5", "1.00")
    assert rows["multicast", "4096", "20%"][6:] == ("0.50", "4.0", "5.0", "3")
    assert told.floors[0].value == 40_000
    assert told.floors[0].is_met
