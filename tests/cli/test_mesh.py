"""`xmlbroker mesh`."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

from rich.console import Console

from broker.cli.mesh_failure import check_failure
from broker.cli.mesh_picture import read_picture
from broker.cli.mesh_report import alarm_lines, dot_lines, failure_lines, picture_tables
from broker.errors import NotAllowed, UnknownDestination
from tests.cli.fake_node import FakeNode, run
from tests.cli.mesh_answer import answer, link, row

DOT = r"""digraph "asdi-mesh" {
  "a1" [label="a1", shape="doublecircle"];
  "b1" [label="b1\nlevel 1, resilience 1", shape="ellipse", color="red"];
  "c \"1\\" [label="c \"1\\\nlevel 2, resilience 1", shape="ellipse"];
  "b2" [label="b2\nno answer", shape="ellipse", style="dashed"];
  "a1" -> "b1" [label="1.2%, 4.6 ms"];
  "b1" -> "c \"1\\" [label="1.2%, 4.6 ms"];
  "b2" -> "c \"1\\" [label="1.2%, 4.6 ms", style="dashed"];
}"""


def node_with(*answers: Any) -> FakeNode:
    """Return a node with these answers, of which the last one stays."""
    node, left = FakeNode(), list(answers)
    node.answers["operate"] = lambda: left.pop(0) if len(left) > 1 else left[0]
    return node


def of_node(**more: Any) -> dict[str, Any]:
    return {"stack": "m", "nodes": [row("b1", 1, "a1", **more)], "silent": []}


def test_tables_have_each_node_and_link() -> None:
    console = Console(width=80, record=True, file=StringIO())
    for table in picture_tables(read_picture(answer())):
        console.print(table)
    lines = [" ".join(line.split()) for line in console.export_text().splitlines()]
    assert "a1 0 root 3 1 up" in lines
    assert "c2 2 2/2 0 1 1 alarm" in lines
    assert "b2 c2 1.2% 4.6 ms 1,200 41 losses, 3,120 ms" in lines


def test_states_of_a_node_that_leaves_and_of_one_without_an_answer() -> None:
    console = Console(width=80, record=True, file=StringIO())
    leaving = row("b1", 1, "a1", has_left=True, children=2, moving=True)
    gone = row("c1", 2, "b7", has_left=True)
    for table in picture_tables(read_picture(answer(b1=leaving, c1=gone))):
        console.print(table)
    text = console.export_text()
    assert "leaving, changes parents" in text and "left" in text
    assert "b7" in text and "no answer" in text


def test_alarms_and_silent_nodes_have_lines() -> None:
    found = read_picture({**answer(), "silent": ["one/x"]})
    assert list(alarm_lines(found)) == [
        "c2: the parents b2 and b3 share the uplink isp-b",
        "without an answer: one/x",
    ]


def test_a_graph_for_graphviz_quotes_names() -> None:
    nodes = [
        row("a1", 0),
        row("b1", 1, "a1", alarms=["x"]),
        row('c "1\\', 2, parents=[link("b1"), link("b2", leaving=True)]),
    ]
    node = node_with({"stack": "asdi-mesh", "nodes": nodes})
    result = run(node, "mesh", "--dot")
    assert (
        result.stdout.strip()
        == DOT
        == "\n".join(dot_lines(read_picture({"stack": "asdi-mesh", "nodes": nodes})))
    )
    assert "b2 did not answer" in result.stderr


def test_a_pipe_gets_a_line_of_json_and_the_stack_is_passed_on() -> None:
    node = node_with(answer())
    for arguments in (["asdi-mesh"], ["show", "asdi-mesh", "--json"]):
        found = json.loads(run(node, "mesh", *arguments).stdout)
        assert found["stack"] == "asdi-mesh"
        assert [each["name"] for each in found["nodes"]] == [
            "a1",
            "a2",
            "b1",
            "b2",
            "b3",
            "c1",
            "c2",
        ]
        parent = found["nodes"][-1]["parents"][0]
        assert (parent["parent"], parent["saved_losses"], parent["shared"]) == (
            "b2",
            41,
            ["node b2"],
        )
    assert node.asked == [("operate", {"stack": "asdi-mesh"})] * 2
    assert run(node, "mesh", "--dot", "--json").exit_code == 2


def test_check_exits_with_1_if_another_node_would_lose_events() -> None:
    node = node_with(answer())
    result = run(node, "mesh", "check", "--without", "b2")
    assert result.exit_code == 0
    assert json.loads(result.output)["weakened"] == {"c1": [1, 0], "c2": [1, 0]}
    result = run(node, "mesh", "check", "--without", "b2", "--without", "b3")
    assert result.exit_code == 1
    assert json.loads(result.output)["cut_off"] == ["c2"]
    result = run(node, "mesh", "check", "--without", "b9")
    assert result.exit_code == 2 and "neither a node nor a diversity key 'b9'" in result.output
    assert run(node_with(NotAllowed("no")), "mesh", "check", "--without", "b2").exit_code == 2


def test_check_tells_each_effect() -> None:
    found = read_picture(answer())
    assert list(failure_lines(check_failure(found, ["uplink=isp-b"]))) == [
        "without b2, b3:",
        "  c2 is cut off: it gets events from the log once it has found other parents",
        "  c1 falls from resilience 1 to 0",
        "  then a failure of uplink=isp-a would cut off c1",
    ]
    assert list(failure_lines(check_failure(found, ["c1"])))[1] == (
        "  no other node loses events or resilience"
    )


def test_leave_waits_until_the_node_has_no_children() -> None:
    node = node_with(of_node(children=1, child_names=["c1"]), of_node(has_left=True))
    result = run(node, "mesh", "leave", "b1")
    assert result.exit_code == 0 and json.loads(result.output)["has_left"] is True
    asked = {"stack": "", "node": "b1"}
    assert node.asked == [
        ("operate", {**asked, "action": "leave"}),
        ("operate", {**asked, "action": "show"}),
    ]
    node = node_with(of_node(children=1, child_names=["c1"]))
    assert run(node, "mesh", "leave", "b1", "--timeout", "0.1").exit_code == 1


def test_rebalance_waits_until_the_parents_stay() -> None:
    node = node_with(of_node(moving=True), of_node())
    result = run(node, "mesh", "rebalance", "b1", "--stack", "m")
    assert result.exit_code == 0
    assert [arguments["action"] for _, arguments in node.asked] == ["rebalance", "show"]
    assert (
        run(
            node_with(of_node(moving=True)), "mesh", "rebalance", "b1", "--timeout", "0.1"
        ).exit_code
        == 1
    )


def test_errors_of_the_node_are_shown() -> None:
    result = run(node_with(UnknownDestination("m has no node 'x'")), "mesh", "leave", "x")
    assert result.exit_code == 1 and "m has no node 'x'" in result.output
    assert run(FakeNode(), "mesh", "leave").exit_code == 2
