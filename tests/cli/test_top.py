from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from broker.cli import status, top
from broker.cli.node_sample import Sample, compute_rates
from broker.cli.overview import overview_tables
from broker.errors import BrokerError, GaveUp, NotAllowed
from tests.cli.fake_node import FakeClient, FakeNode, run
from tests.cli.network_status import recovery, status_of


class SeveralNodes:
    def __init__(self, **nodes: FakeNode) -> None:
        self.nodes = {f"tcp:{name}:1": node for name, node in nodes.items()}

    def __call__(self, *endpoints: str, **options: Any) -> FakeClient:
        (endpoint,) = endpoints
        return self.nodes[endpoint](endpoint, **options)

    @property
    def options(self) -> list[str]:
        return [each for endpoint in self.nodes for each in ("--node", endpoint)]

    def run(self, *arguments: str) -> Any:
        return run(self, *arguments, *self.options)  # type: ignore[arg-type]


def two_nodes(error: BrokerError | None = None) -> SeveralNodes:
    """The second one is unreachable if there is an error."""
    return SeveralNodes(
        a1=FakeNode(answers={"status": status_of("a1")}),
        a2=FakeNode(answers={"status": status_of("a2")}, unreachable=error),
    )


def shown(samples: list[Sample], before: list[Sample | None]) -> str:
    screen = Console(width=80, file=io.StringIO(), highlight=False, markup=False)
    found = [compute_rates(*pair) for pair in zip(before, samples, strict=True)]
    with screen.capture() as text:
        for table in overview_tables(samples, found):
            screen.print(table)
    return text.get()


def row(text: str, beginning: str) -> list[str]:
    """Nodes come before events, events before links."""
    return next(line.split() for line in text.splitlines() if line.strip().startswith(beginning))


def test_nodes_and_links_have_rows() -> None:
    samples = [Sample("tcp:a1:1", 5.0, status_of("a1")), Sample("tcp:a2:1", 5.0, status_of("a2"))]
    nodes, after = shown(samples, [None, None]).split("Events")
    events, after = after.split("Links")
    links, traffic = after.split("Traffic")
    assert row(nodes, "alps/a1 ") == ["alps/a1", "alps", "2/3", "1", "1/1", "2", "up"]
    assert row(nodes, "alps/a2 ")[-1] == "draining"
    assert row(events, "alps/a1 ") == ["alps/a1", "10", "7", "8", "50", "4", "1", "0"]
    assert row(links, "alps/a1 - coast/c1") == (
        ["alps/a1", "-", "coast/c1", "udp", "192.0.2.7:4000", "up,", "not", "trusted"]
    )
    assert row(traffic, "alps/a2 - coast/c1")[3:] == (
        ["100", "1,000", "5", "2", "3", "2", "41", "42"]
    )


def test_an_increase_since_the_last_sample_is_shown_as_a_rate() -> None:
    before = Sample("tcp:a1:1", 5.0, status_of("a1"))
    now = Sample("tcp:a1:1", 7.0, status_of("a1", published=31, sent=102))
    text = shown([now], [before])
    events, traffic = text.split("Events")[1].split("Traffic")
    assert row(events, "alps/a1 ")[1] == "10.5/s"
    assert row(traffic, "alps/a1 ")[3:5] == ["1.0/s", "10.0/s"]


def test_an_unreachable_node_is_a_row_with_the_reason() -> None:
    text = shown([Sample("tcp:evil\x1b[2J:1", 5.0, error="no answer\nat all")], [None])
    assert "unreachable: no answer at all" in " ".join(text.split())
    assert "\x1b" not in text


def test_the_row_of_an_unreachable_node_names_it_once() -> None:
    error = "no node answered at tcp:a:1 in 3 s: Connection refused"
    text = " ".join(shown([Sample("tcp:a:1", 5.0, error=error)], [None]).split())
    assert "unreachable: no node answered in 3 s: Connection refused" in text


def test_a_node_with_an_unwritable_log_shows_it() -> None:
    full = {**status_of("a1"), "log": {"writable": False}}
    assert "log not writable" in shown([Sample("tcp:a:1", 1.0, full)], [None])


def test_a_node_that_is_alone_has_no_network() -> None:
    alone: dict[str, Any] = {"node": "n1", "network": None, "sessions": []}
    alone["published"] = {"received": 3}
    assert row(shown([Sample("tcp:a:1", 1.0, alone)], [None]), "n1")[-1] == "alone"


def test_the_archive_and_recoveries_have_a_table() -> None:
    first = {**status_of("a1"), "recovery": recovery()}
    none = {**status_of("a2"), "recovery": {"archive": None, "replays": None, "recoveries": {}}}
    samples = [Sample("tcp:a1:1", 5.0, first), Sample("tcp:a2:1", 5.0, none)]
    table = shown(samples, [None, None]).split("Recovery")[1].split("Links")[0]
    assert row(table, "alps/a1 ") == ["alps/a1", *"4,000 12 up 2 4,321 5 local".split()]
    assert row(table, "alps/a2 ") == ["alps/a2", *"- - none 0 0 0 -".split()]
    ill = {**status_of("a1"), "recovery": recovery(behind=None, problem="full", replays=False)}
    table = shown([Sample("tcp:a1:1", 5.0, ill)], [None]).split("Recovery")[1]
    assert row(table, "alps/a1 ")[2:4] == ["-", "problem"]
    assert row(table, "alps/a1 ")[-2:] == ["at", "rest"]
    later = {**first, "recovery": recovery()}
    later["recovery"]["recoveries"]["events"]["archive"] += 30
    now = Sample("tcp:a1:1", 8.0, later)
    table = shown([now], [samples[0]]).split("Recovery")[1]
    assert row(table, "alps/a1 ")[5] == "10.0/s"


def test_each_sample_is_one_line_of_json() -> None:
    result = two_nodes().run("top", "--once", "--json")
    assert result.exit_code == 0, result.output
    (line,) = map(json.loads, result.stdout.splitlines())
    assert [node["endpoint"] for node in line["nodes"]] == ["tcp:a1:1", "tcp:a2:1"]
    assert line["nodes"][1]["network"]["address"] == "alps/a2"
    assert line["nodes"][0]["rates"] == {}
    assert line["at_ms"] > 0


@pytest.mark.parametrize("command", [("top", "--once"), ("status",)])
def test_an_unreachable_node_does_not_hide_the_others(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (top, status):
        monkeypatch.setattr(module, "is_terminal", lambda: True)
    result = two_nodes(GaveUp("no node answered")).run(*command)
    assert result.exit_code == 1
    assert "alps/a1" in result.stdout and "tcp:a2:1" in result.stdout


def test_status_of_several_nodes_is_a_line_each() -> None:
    result = two_nodes(NotAllowed("may not administer")).run("status")
    assert result.exit_code == 1
    first, second = map(json.loads, result.stdout.splitlines())
    assert first == {"endpoint": "tcp:a1:1", **status_of("a1")}
    assert second == {"endpoint": "tcp:a2:1", "error": "may not administer"}


def test_every_session_is_closed() -> None:
    nodes = two_nodes()
    nodes.run("top", "--once", "--json")
    assert [node.closed for node in nodes.nodes.values()] == [1, 1]


@pytest.mark.parametrize("answer", [7, ["x"], {"sessions": 7}, {"network": {"links": 7}}])
def test_a_malformed_answer_is_one_line(answer: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "is_terminal", lambda: True)
    nodes = SeveralNodes(a1=FakeNode(answers={"status": answer}))
    result = nodes.run("top", "--once")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert "the node's answer can not be read" in line
