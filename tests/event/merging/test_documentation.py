"""docs/merging.md agrees with the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import attrs

from broker.client.client import Client
from broker.event.merging import bundles
from broker.event.merging.settings import Merging
from broker.event.merging.vocabulary import (
    MAX_BUNDLE_ID_LENGTH,
    MAX_BUNDLES_PER_EVENT,
    MAX_CONSTRAINT_MS,
    MAX_ORDER_LENGTH,
    Scheme,
    parse_constraint,
    parse_rule,
    rule_of,
)
from tests.event.merging.schedules import linked

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "merging.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    table = PAGE.split(f"| {heading} |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()[2:]]


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_its_words_are_the_vocabulary() -> None:
    schemes = [word for row in rows("MergeScheme") for word in words(row[0])]
    assert schemes == ["none", "arrival", "time", "bundle"]
    for word in schemes:
        rule, unknown = rule_of(linked(None, word, "a"))
        assert unknown == ()
        assert (None if rule is None else rule.scheme) == (
            Scheme(word) if word in ("time", "bundle") else None
        )
    constraints = [word for row in rows("TimeConstraint") for word in words(row[0])]
    assert {str(parse_constraint(word)).split()[0] for word in constraints} == {
        *("none", "within", "window")
    }
    assert "up to `1h`" in PAGE
    assert parse_constraint("within 1h") is not None
    assert MAX_CONSTRAINT_MS == 3_600_000


def test_its_settings_are_those_of_a_merge() -> None:
    told = {name: row[1] for row in rows("setting") for name in words(row[0])}
    assert set(told) == {field.name for field in attrs.fields(Merging)} - {"rule"}
    default = Merging()
    for name in ("wait", "idle", "delay", "longest"):
        assert told[name] == f"{getattr(default, name):g} s"
    assert told["max_events"] == f"{default.max_events:,}; {default.max_bytes // 2**20} MiB"


def test_its_bounds_are_those_of_the_core() -> None:
    assert f"more than {MAX_BUNDLES_PER_EVENT} bundles" in PAGE
    assert f"longer than {MAX_BUNDLE_ID_LENGTH} characters" in PAGE
    assert f"of more than {MAX_ORDER_LENGTH // 1024} KiB" in PAGE
    assert f"{bundles.MAX_BUNDLES:,} other bundles" in PAGE


def test_its_examples_work() -> None:
    asking, ruling, replaying, finished = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert "merge=Merging()" in asking
    merge = re.search(r"merge = (.*)\n", ruling)
    assert merge is not None
    order = ["asdi.zbw.fp", "asdi.zbw.tz"]
    assert eval(merge[1], {"Merging": Merging}) == Merging(
        parse_rule("time within 250ms", order), wait=0.5
    )
    keywords = {word for word in re.findall(r"(\w+)=", replaying) if word != "replay"}
    assert keywords <= set(inspect.signature(Client.replay).parameters)
    exec(finished, {})
