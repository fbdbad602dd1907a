from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.errors import EngineUnavailable
from broker.replay.engine.spark_session import check_java
from tests.capability import SHARED_DATA
from tests.system.node_process import PATIENCE, ROOT, NodeProcess
from tests.system.traffic import FLIGHT, run_within

pytestmark = pytest.mark.system


def example(name: str, node: NodeProcess) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / name), node.endpoint],
        cwd=node.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("subscriber", ["subscribe.py", "subscribe_twisted.py"])
def test_ten_line_examples_work_together(subscriber: str, shared_node: NodeProcess) -> None:
    subscribing = example(subscriber, shared_node)
    assert subscribing.stdout is not None
    try:
        assert "waiting" in subscribing.stdout.readline()
        publishing = example("publish.py", shared_node)
        output, _ = publishing.communicate(timeout=PATIENCE)
        assert publishing.returncode == 0, output
        assert "is durable at" in output
        line = subscribing.stdout.readline()
        assert line.startswith("flights.ual ")
        assert output.split()[0].split("/")[0] in line
    finally:
        subscribing.kill()
        subscribing.communicate()


def test_clients_at_sites_without_nodes_get_one_order() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "group_chat.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "all sites have the same order: True"


def test_queries_of_table_1_find_their_flights(shared_node: NodeProcess) -> None:
    published: list[str] = []

    async def publish() -> None:
        async with connect(shared_node.endpoint) as client:
            await client.when_connected(PATIENCE)
            for payload in (
                located_flight("UAL1021", 310, "4928N"),
                located_flight("TWA800", 137, "0439N"),
                located_flight("xTWA", 300, "2326N"),
            ):
                receipt = await client.publish("flights.any", payload, FLIGHT)
                published.append(str(receipt.event_id))

    subscribing = example("table_1.py", shared_node)
    assert subscribing.stdout is not None
    try:
        assert "waiting" in subscribing.stdout.readline()
        run_within(publish())
        high, airline, low = published
        all_events, altitude, prefix, latitude = (
            "true()",
            "/flight/flightleg/altitude > 300",
            'starts-with(string(/flight/id), "TWA")',
            "substring(string(/flight/flightleg/coordinate/lat), 1, 4) > 2326",
        )
        expected = {
            (high, all_events),
            (high, altitude),
            (high, latitude),
            (airline, all_events),
            (airline, prefix),
            (low, all_events),
        }
        lines = [subscribing.stdout.readline().strip() for _ in expected]
        assert {tuple(line.split(" ", 1)) for line in lines} == expected
    finally:
        subscribing.kill()
        subscribing.communicate()


def located_flight(flight_id: str, altitude: int, latitude: str) -> bytes:
    return (
        f"<flight><id>{flight_id}</id><flightleg><altitude>{altitude}</altitude><coordinate>"
        f"<lat>{latitude}</lat><lon>12003W</lon></coordinate></flightleg></flight>"
    ).encode()


def network_example(
    folder: Path, *options: str, module: str = "examples.network"
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module, "--keep", str(folder), *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def processes_in(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            place = (process / "cwd").readlink()
        except OSError:
            continue
        if place.is_relative_to(folder):
            found.append(process.name)
    return found


def engine() -> str:
    try:
        check_java()
    except EngineUnavailable:
        return "local"
    return "spark"


@pytest.mark.soak
def test_network_example_loses_nothing(tmp_path: Path) -> None:
    running = network_example(tmp_path / "nodes", "--limit", "300")
    output, _ = running.communicate(timeout=8 * PATIENCE)
    assert running.returncode == 0, output
    assert "nothing lost, nothing twice, everything in order" in output
    assert "kill -9" in output and "coast/c1" in output
    assert processes_in(tmp_path) == []
    logs = [path.read_text() for path in (tmp_path / "nodes").glob("*/node.log")]
    assert sum("stopped in good order" in log for log in logs) == 8
    assert not any("Traceback" in log for log in logs)


@pytest.mark.soak
def test_roaming_example_loses_nothing(tmp_path: Path) -> None:
    # Fewer of the small generated events would fit into the smallest log.
    count = 1200 if SHARED_DATA.exists() else 8000
    running = network_example(
        *(tmp_path / "nodes", "--limit", str(count)), module="examples.roaming"
    )
    output, _ = running.communicate(timeout=10 * PATIENCE)
    assert running.returncode == 0, output
    assert "nothing missing, nothing twice, everything in order" in output
    assert "north is lost" in output
    # Nine twentieths came meanwhile; the logs hold a sixth.
    found = re.search(rf"recovered from the archive \({engine()}\) +(\d+)", output)
    assert found is not None, output
    assert int(found[1]) > count * 9 / 20 / 2
    assert processes_in(tmp_path) == []
    logs = [path.read_text() for path in (tmp_path / "nodes").glob("*/node.log")]
    assert not any("Traceback" in log for log in logs)


@pytest.mark.soak
def test_mesh_example_loses_nothing(tmp_path: Path) -> None:
    running = network_example(
        *(tmp_path / "nodes", "--events", "1000", "--rate", "100"), module="examples.mesh"
    )
    output, _ = running.communicate(timeout=8 * PATIENCE)
    assert running.returncode == 0, output
    assert "nothing lost, nothing twice, everything in order" in output
    killed = re.search(r"kill -9 of (b\d), a parent of c", output)
    assert killed is not None, output
    rows = {line.split()[0]: line for line in output.splitlines() if re.match(r" ?c\d ", line)}
    assert rows.keys() == {"c1", "c2", "c3"}, output
    for row in rows.values():
        # The killed router was replaced.
        before, found, after = row.partition(">")
        assert not found or killed[1] not in after, output
        assert found or killed[1] not in before, output
    assert processes_in(tmp_path) == []
    logs = [path.read_text() for path in (tmp_path / "nodes").glob("*/node.log")]
    assert sum("stopped in good order" in log for log in logs) == 8
    assert not any("Traceback" in log for log in logs)


def test_secure_example_lets_the_right_attempts_fail(tmp_path: Path) -> None:
    running = network_example(tmp_path / "nodes", module="examples.secure")
    output, _ = running.communicate(timeout=4 * PATIENCE)
    assert running.returncode == 0, output
    assert "all attempts failed that must fail" in output
    assert output.count("as it must be") == 12
    assert processes_in(tmp_path) == []
    logs = [path.read_text() for path in (tmp_path / "nodes").glob("*/node.log")]
    assert len(logs) == 6 and not any("Traceback" in log for log in logs)
    private = [*(tmp_path / "nodes").glob("[abm]?/*.pem"), *(tmp_path / "nodes").glob("*/*.jsonl")]
    private = [each for each in private if each.name != "authority.pem"]
    assert {stat.S_IMODE(each.stat().st_mode) for each in private} == {0o600}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("module", "shown"),
    [("examples.network", " subscribes to "), ("examples.mesh", "events are published")],
)
def test_interrupted_network_example_leaves_no_process(
    module: str, shown: str, tmp_path: Path
) -> None:
    running = network_example(tmp_path / "nodes", module=module)
    assert running.stdout is not None
    # All nodes run by then.
    assert any(shown in line for line in running.stdout)
    assert len(processes_in(tmp_path)) == 9
    running.send_signal(signal.SIGINT)
    output, _ = running.communicate(timeout=4 * PATIENCE)
    assert running.returncode == 130, output
    assert processes_in(tmp_path) == []
