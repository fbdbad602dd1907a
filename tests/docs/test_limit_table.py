"""Each row of the limits in `docs/security.md` has a test beside a measured bystander."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.source_tree import Tree
from tests.system.node_process import ROOT

BYSTANDERS = {"measured_bystander", "MeasuredBystander", "MeasuredPeer"}


class Row(NamedTuple):
    resource: str
    per: str


def rows_of_table() -> list[Row]:
    text = (ROOT / "docs" / "security.md").read_text().partition("\n## Limits\n")[2]
    lines = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("|")]
    rows: list[Row] = []
    for line in lines[2:]:
        resource, _, per, *_ = [cell.strip() for cell in line.strip("|").split("|")]
        # Without the targets of links.
        resource = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", resource)
        rows.append(Row(resource or rows[-1].resource, per))
    return rows


def marked_tests() -> Iterator[tuple[Row, bool]]:
    """Yield the row of each mark `limit`, and whether the test has a bystander."""
    for path in Tree(ROOT).files("tests"):
        text = path.read_text() if path.suffix == ".py" else ""
        if "mark.limit(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.limit":
                    yield Row(*map(ast.literal_eval, mark.args)), bool(names & BYSTANDERS)


def test_each_row_has_a_test_with_a_bystander() -> None:
    rows = rows_of_table()
    assert len(rows) > 35 and len(set(rows)) == len(rows)
    tested = {row for row, has_bystander in marked_tests() if has_bystander}
    assert set(rows) <= tested


def test_each_mark_names_a_row() -> None:
    assert {row for row, _ in marked_tests()} <= set(rows_of_table())
