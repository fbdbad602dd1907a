from __future__ import annotations

from benchmarks.recover_report import Cold, Recovery, report


def came(source: str, clients: int, seconds: float, *, shared: bool = True) -> Recovery:
    return Recovery(source, clients, 1000, shared, 0.1, 0.2, seconds, 7, 1, 0.5, 20.0)


def test_a_thousand_clients_have_a_floor_against_one_for_each_engine() -> None:
    returns = [
        came("log", 1, 0.1, shared=False),
        *(came("local", 1, 2.0), came("local", 1000, 19.0)),
        *(came("spark", 1, 2.0), came("spark", 1000, 21.0)),
    ]
    said = report(1000, [Cold("local", 1.0, 2.0, 10)], returns)
    assert {floor.what: floor.is_met for floor in said.floors} == {
        "local: 1,000 clients against one": True,
        "spark: 1,000 clients against one": False,
    }
    assert [row[0] for row in said.sheets[1].rows] == ["log"]
    assert [row[5] for row in said.sheets[2].rows] == ["1.00", "9.50", "1.00", "10.50"]


def test_the_report_states_the_absence_of_spark() -> None:
    assert report(1000, [], [came("local", 1, 1.0)], "no Java").notes[-1] == (
        "without Spark: no Java"
    )
