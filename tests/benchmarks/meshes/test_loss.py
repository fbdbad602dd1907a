from __future__ import annotations

from benchmarks.meshes.loss import LossPoint, findings, make_sheet


def point(parents: int, loss: float, missing: int, dropped: int = 0) -> LossPoint:
    return LossPoint(parents, loss, 20_000, missing, dropped)


def test_a_point_outside_the_bounds_is_missed() -> None:
    # 200 expected, with a deviation of 14.1.
    points = [point(1, 0.0, 0), point(2, 0.1, 190), point(2, 0.1, 260)]
    rows = make_sheet(points, quick=False).rows
    assert [row[-1] for row in rows] == ["PASS", "PASS", "MISSED"]
    assert rows[1][:6] == ("2", "10%", "20,000", "1.0000 %", "0.9500 %", "190")
    assert [each.verdict for each in findings(points)] == ["PASS", "PASS", "MISSED"]
    assert {row[-1] for row in make_sheet(points, quick=True).rows} == {"means nothing"}


def test_an_event_that_is_missing_without_loss_is_missed() -> None:
    points = [point(4, 0.0, 1), point(4, 0.5, 1_250, dropped=2)]
    assert [each.verdict for each in findings(points)] == ["MISSED", "MISSED", "PASS"]
    assert not points[0].is_met
