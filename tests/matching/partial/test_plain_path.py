"""Rows of plain paths agree with lxml."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from lxml import etree

from broker.matching.partial import plain_path
from broker.matching.partial.document_tree import build_document_tree
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.plain_path import PlainPath, compile_plain_path, find_rows
from broker.matching.partial.source import Constant
from broker.matching.partial.template import TemplateInstance, extract_templates
from broker.matching.partial.work_budget import TooExpensive, WorkBudget
from broker.matching.query.query import parse_query

PREFIXES = {"p": "urn:p"}
VALUES = st.sampled_from(["", "1", "2", "2.5", "x", "xy", " 3 ", "-1"])
NAMES = st.sampled_from(["a", "b", "c", "{urn:p}a"])
COMPARISONS = (
    "{} = 'x'",
    "{} != 'x'",
    "{} > 1",
    "{} <= 2.5",
    "2 = {}",
    "starts-with({}, 'x')",
    "contains({}, '')",
    "{} = ''",
)
INNER = ("@x", "b", "p:a", "a[@x = '1']", "c[b > 1 and @x < 3]")
FORMS = (
    "//a[{0}]",
    "/r/b[{0}]",
    "//b[{0} and {1}]",
    "//a[{0}][{1}]",
    "/r//p:a[{0}]/b",
    "//c[{0}]/@x = '1'",
    "/r/a/@x > 1",
    "starts-with(//b/@x, 'x')",
    "contains(/r/c, 'x')",
    "//a//b[{0}]",
    "//b",
    "/r/c/@x",
)


@st.composite
def documents(draw: st.DrawFn) -> etree._Element:
    def fill(element: etree._Element, depth: int) -> None:
        if draw(st.booleans()):
            element.set("x", draw(VALUES))
        element.text = draw(VALUES)
        for _ in range(draw(st.integers(0, 3 if depth else 0))):
            fill(etree.SubElement(element, draw(NAMES)), depth - 1)

    root = etree.Element("r")
    fill(root, 3)
    return root


def read(text: str) -> tuple[TemplateInstance, PlainPath | None]:
    (instance,) = extract_templates(parse_query(text, PREFIXES))
    return instance, compile_plain_path(instance.template, instance.template.expression)


def subjects_of(root: etree._Element) -> EvaluationInput:
    tree = build_document_tree(root)
    assert tree is not None
    return EvaluationInput(tree, tree, {})


def holds(instance: TemplateInstance, path: PlainPath, root: etree._Element) -> bool:
    found = find_rows(path, subjects_of(root), WorkBudget(10_000))
    assert found is not None
    for row in found:
        values = {}
        for parameter, source in row.items():
            assert isinstance(source, Constant)
            values[parameter] = source.value
        assert set(values) == set(range(len(instance.literals)))
        if all(
            parameter.test(values[at], instance.literals[at])
            for at, parameter in enumerate(instance.template.parameters)
        ):
            return True
    return False


@settings(max_examples=600)
@given(
    documents(),
    st.sampled_from(FORMS),
    st.lists(
        st.tuples(st.sampled_from(COMPARISONS), st.sampled_from(INNER)), min_size=2, max_size=2
    ),
)
def test_a_query_holds_when_one_row_satisfies_it(
    root: etree._Element, form: str, parts: list[tuple[str, str]]
) -> None:
    text = form.format(*(comparison.format(inner) for comparison, inner in parts))
    instance, path = read(text)
    if path is None:
        # The first node may depend on a compared value.
        assert "starts-with" in text or "contains" in text
        return
    expected = etree.XPath(f"boolean({text})", namespaces=PREFIXES)(root)
    assert holds(instance, path, root) is expected


@pytest.mark.parametrize(
    "text",
    [
        "//a[2]",
        "//a[b]",
        "//a[not(b = 1)]",
        "//a[b = 1 or c = 2]",
        "//*[b = 1]",
        "//a[. > 1]",
        "//a[b/c > 1]",
        "//a[//b > 1]",
        "//a/text() = 'x'",
        "//a/.. = 'x'",
        "count(//a) > 1",
        "string(//a) = 'x'",
        "starts-with(//a[b = 1], 'x')",
        "//a[starts-with(b[c = 1], 'x')]",
        "$StreamId = 'x'",
        "/Mspaces:Event = 'x'",
        "//a | //b",
    ],
)
def test_other_paths_are_not_plain(text: str) -> None:
    assert read(text)[1] is None


def test_too_many_rows_and_too_much_work_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = etree.Element("r")
    for number in range(40):
        child = etree.SubElement(root, "a")
        for _ in range(3):
            etree.SubElement(child, "b").text = str(number)
    _, path = read("//a[b > 1 and b < 5]")
    assert path is not None
    found = find_rows(path, subjects_of(root), WorkBudget(10_000))
    assert found is not None and len(found) == 40 * 9
    with pytest.raises(TooExpensive):
        find_rows(path, subjects_of(root), WorkBudget(100))
    monkeypatch.setattr(plain_path, "MAX_ROWS", 40 * 9 - 1)
    with pytest.raises(TooExpensive):
        find_rows(path, subjects_of(root), WorkBudget(10_000))
