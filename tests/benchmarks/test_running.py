from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.actors.stomp_read import count_matches
from benchmarks.harness.flights import is_high
from benchmarks.workloads.flights import rare_queries
from tests.capability import need

ROOT = Path(__file__).resolve().parents[2]


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_that_mention(text: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_text()
        except OSError:
            continue
        if text in command and int(entry.name) != os.getpid():
            found.append(command)
    return found


def saved(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def test_the_list_names_every_benchmark() -> None:
    output, _ = started("--list").communicate(timeout=30)
    assert [line.split()[0] for line in output.splitlines()] == [
        *("node", "latency", "logins", "path", "memory", "reload", "content", "feeds"),
        *("links", "group", "line", "network", "archive", "ingest", "replay", "recover"),
        *("jetstream", "rcm", "dcp"),
    ]


def test_an_unknown_benchmark_is_refused_with_the_known_ones() -> None:
    process = started("speed")
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "'node', 'latency', 'logins', 'path', 'memory'" in errors


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.system
def test_a_quick_run_of_the_latency_delivers_all_matching_events(tmp_path: Path) -> None:
    results, data = tmp_path / "results", tmp_path / "data"
    data.mkdir()
    process = started("--quick", "--results", str(results), "--data", str(data), "latency")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    latency = saved(results, "latency")
    assert latency["delivered"] == sum(map(is_high, range(latency["published"])))
    assert 0 < latency["milliseconds"]["p50"] <= latency["milliseconds"]["max"]
    assert list(data.iterdir()) == []
    assert processes_that_mention(str(data)) == []


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.system
def test_a_quick_run_prints_tables_and_writes_its_figures(tmp_path: Path) -> None:
    results, data = tmp_path / "results", tmp_path / "data"
    data.mkdir()
    process = started("--quick", "--results", str(results), "--data", str(data), "content")
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "means nothing" in output
    content = saved(results, "content")
    flights = [cost for cost in content["costs"] if cost["workload"] == "flights"]
    assert flights[0]["median_ratio"] == 1.0
    assert {cost["queries"] for cost in flights} == {None, 0, 4, 100, 500}
    assert all(cost["median_micros"] > 0 for cost in content["costs"])
    # The run itself compares engine and lxml.
    assert content["agreed"]["flights, 500 harder queries"] > 0
    assert list(data.iterdir()) == []
    assert processes_that_mention(str(data)) == []


@pytest.mark.slow
@pytest.mark.system
def test_a_quick_run_of_the_archive_counts_its_written_events(tmp_path: Path) -> None:
    results, data = tmp_path / "results", tmp_path / "data"
    data.mkdir()
    process = started(
        *("--quick", "--events", "700", "--results", str(results), "--data", str(data), "archive")
    )
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    archive = saved(results, "archive")
    flights = {each["level"]: each for each in archive["measured"] if each["workload"] == "flights"}
    assert {level: each["events"] for level, each in flights.items()} == {1: 70, 3: 700, 9: 70}
    assert all(0 < each["archived"] < each["raw"] for each in flights.values())
    assert {each["events"] for each in archive["cold"]} == {700}
    assert list(data.iterdir()) == []


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.system
def test_a_quick_run_of_the_replay_delivers_each_event_once(tmp_path: Path) -> None:
    results, data = tmp_path / "results", tmp_path / "data"
    data.mkdir()
    process = started(
        *("--quick", "--events", "2000", "--results", str(results), "--data", str(data), "replay")
    )
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    replay = saved(results, "replay")
    local = [run for run in replay["runs"] if run["engine"] == "local"]
    assert [run["requests"] for run in local] == [1, 100, 1_000]
    assert {run["events"] for run in replay["runs"]} == {2_000}
    assert all(each["matches"] == 2_000 for each in replay["spark_alone"])
    assert list(data.iterdir()) == []


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.system
def test_a_quick_run_of_the_links_carries_everything(tmp_path: Path) -> None:
    results, data = tmp_path / "results", tmp_path / "data"
    data.mkdir()
    process = started(*("--quick", "--results", str(results), "--data", str(data), "links"))
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    links = saved(results, "links")["runs"]
    assert len(links) == 2 + 8 + 8
    assert all(run["missing"] == 0 for run in links if run["kind"] != "multicast")
    assert list(data.iterdir()) == []


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.system
def test_a_quick_run_of_the_line_carries_everything(tmp_path: Path) -> None:
    results, data = tmp_path / "results", tmp_path / "data"
    data.mkdir()
    process = started(*("--quick", "--results", str(results), "--data", str(data), "line"))
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    line = {run["work"]: run for run in saved(results, "line")["runs"]}
    assert [len(run["cpu"]) for run in line.values()] == [1, 1, 1, *[3] * 8]
    assert all(run["dropped"] == 0 for run in line.values())
    # Without interests elsewhere only progress marks cross the links.
    assert line["between two idle neighbours, subscriber"]["link_bytes"] < 10_000
    tenth, all_of_it = line["line, a tenth wanted at c"], line["line, subscriber at c"]
    assert tenth["link_bytes"] < all_of_it["link_bytes"] / 5
    assert list(data.iterdir()) == []


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.system
def test_a_quick_run_of_the_mesh_loses_nothing_without_loss(tmp_path: Path) -> None:
    results, data = tmp_path / "results", tmp_path / "data"
    data.mkdir()
    process = started("--quick", "--results", str(results), "--data", str(data), "dcp")
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert "virtual time" in output
    dcp = saved(results, "dcp")
    lost = {(each["parents"], each["loss"]): each["missing"] for each in dcp["loss"]}
    assert len(lost) == 4 * 3
    assert {lost[parents, 0.0] for parents in range(1, 5)} == {0}
    assert lost[1, 0.5] > lost[4, 0.5] > 0
    assert all(run["documents"] == 3_000 for run in dcp["forwarding"])
    assert all(point["arrived"] == point["chunks"] for point in dcp["tiers"])
    assert list(data.iterdir()) == []


@pytest.mark.slow
@pytest.mark.system
def test_a_quick_run_of_the_node_counts_deliveries_of_extra_queries(tmp_path: Path) -> None:
    # The run would install them.
    need("peers")
    results, data = tmp_path / "results", tmp_path / "data"
    data.mkdir()
    process = started("--quick", "--results", str(results), "--data", str(data), "node")
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    works = {
        (work["name"], work["subscribers"], work["queries"]): work
        for work in saved(results, "node")["works"]
    }
    assert len(works) == 16
    for subscribers in (1, 10):
        beside = works["node, prebuilt", subscribers, 1000]["beside"]
        assert beside["published"] == 2_500
        # The number that lxml finds for the same events and queries.
        assert beside["delivered"] == count_matches(rare_queries(1_000), range(2_500))
        assert beside["dropped"] == 0
    assert works["ActiveMQ, payload alone", 1, 1000]["runs"][0]["published_per_second"] > 0
    assert list(data.iterdir()) == []


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_benchmark_that_is_interrupted_leaves_nothing_behind(
    number: signal.Signals, tmp_path: Path
) -> None:
    # Long enough to be interrupted as soon as its node runs.
    process = started("--quick", "--results", str(tmp_path), "--data", str(tmp_path), "memory")
    while not processes_that_mention(str(tmp_path / "xmlbroker-bench-")):
        assert process.poll() is None
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode not in (0, -number)
    assert list(tmp_path.iterdir()) == []
    assert processes_that_mention(str(tmp_path)) == []
