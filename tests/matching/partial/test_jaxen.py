"""Expressions of jaxen's test suite on shapes: decisions agree with lxml."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from broker.matching.partial.document_tree import build_document_tree
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.evaluator import evaluate_template
from broker.matching.partial.formula import is_decided, necessary_condition
from broker.matching.partial.template import extract_templates
from broker.matching.query.query import parse_query
from tests.matching.partial.slotted_tree import SlottedTree
from tests.matching.partial.test_evaluator import holds
from tests.matching.query.test_jaxen import Case, _foreign, cases

#: Minimum of decided expressions, of 260 that lxml evaluates. The others use namespaces or
#: languages.
FLOOR = 240


def evaluated(folder: Path) -> list[tuple[Case, etree._Element, bool]]:
    """Cases with their document; the context is its root element."""
    found = []
    for case in cases(folder):
        if case.node is None or case.refused or _foreign(case):
            continue
        root = _without_comments(case.node)
        compiled = etree.XPath(
            f"boolean({case.expression})", namespaces=case.namespaces, regexp=False
        )
        found.append((case, root, bool(compiled(root))))
    return found


def _without_comments(node: etree._Element) -> etree._Element:
    # An inner context becomes a document of its own: the evaluator's context is the root element.
    root = copy.deepcopy(node)
    root.tail = None
    etree.strip_tags(root, etree.Comment, etree.ProcessingInstruction)
    alone = etree.fromstring(etree.tostring(root))
    assert not list(alone.iter(etree.Comment, etree.ProcessingInstruction))
    return alone


def decide(case: Case, evaluation_input: EvaluationInput, values: list[bytes]) -> bool | None:
    """The evaluator's decision; None if it is undecided but possible."""
    answers: list[bool | None] = []
    for instance in extract_templates(parse_query(case.expression, case.namespaces)):
        formula = evaluate_template(instance.template, evaluation_input).formula
        might = holds(necessary_condition(formula), instance, values)
        answers.append(might if is_decided(formula) or not might else None)
    return True if True in answers else None if None in answers else False


@pytest.mark.parametrize("constants", ["none", "short", "all"])
def test_decisions_agree_with_lxml_and_most_cases_are_decided(
    shared_data: Path, constants: str
) -> None:
    constant: Any = {
        "none": lambda value: False,
        "short": lambda value: len(value) < 4 or value.isspace(),
        "all": lambda value: True,
    }[constants]
    counts: Counter[bool | None] = Counter()
    for case, root, expected in evaluated(shared_data / "xpath-jaxen"):
        tree = SlottedTree(root, constant)
        answer = decide(case, EvaluationInput(tree.root, tree.root, {}), tree.values)
        assert answer is expected or answer is None, (case.expression, case.document)
        counts[answer] += 1
    assert counts.total() > 250
    assert counts[True] + counts[False] > FLOOR, counts


def test_the_tree_of_a_parsed_document_gives_the_same_answers(shared_data: Path) -> None:
    counts: Counter[bool | None] = Counter()
    for case, root, expected in evaluated(shared_data / "xpath-jaxen"):
        tree = build_document_tree(root)
        if tree is None:
            continue
        answer = decide(case, EvaluationInput(tree, tree, {}), [])
        assert answer is expected or answer is None, (case.expression, case.document)
        counts[answer] += 1
    assert counts[True] + counts[False] > FLOOR - 20, counts
