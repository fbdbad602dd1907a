"""Bindings of a family to a shape: look-ups, and members left to evaluate."""

from __future__ import annotations

import pytest
from lxml import etree

from broker.matching.engine.batch_match import match_batches
from broker.matching.engine.binding import Binding, IndexedBinding, ShapeBatch, bind_formula
from broker.matching.engine.distinct_query import DistinctQuery
from broker.matching.engine.index_conjunction import ConjunctionReader
from broker.matching.engine.query_family import EARLY_INDEX_SIZE, QueryFamily
from broker.matching.engine.shape_bindings import ShapeBindings
from broker.matching.index.shared_index import IndexPool
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.evaluator import evaluate_template
from broker.matching.partial.template import extract_templates
from broker.matching.query.query import parse_query
from tests.matching.partial.slotted_tree import SlottedTree

LEGS = "<f>" + "".join(f"<leg><a>{n}</a><b>{n % 7}</b></leg>" for n in range(60)) + "</f>"


def bound(*queries: str, pool: IndexPool | None = None) -> tuple[Binding, SlottedTree]:
    """Bind the queries of one template to a document of sixty legs."""
    pool = pool or IndexPool()
    tree = SlottedTree(etree.fromstring(LEGS))
    family: QueryFamily | None = None
    for query in queries:
        (instance,) = extract_templates(parse_query(query))
        family = family or QueryFamily(instance.template, 1, pool)
        family.add_member(instance.literals)
    assert family is not None
    formula = evaluate_template(family.template, EvaluationInput(tree.root, tree.root, {})).formula
    binding = bind_formula(family, formula, ConjunctionReader())
    assert binding is not None
    return binding, tree


def found(
    binding: Binding, tree: SlottedTree, bound: ShapeBindings | None = None
) -> list[tuple[object, ...]]:
    """Return the literals of members that match or may match. `bound` contains other families."""
    members = binding.family.members
    for number, member in enumerate(members):
        member.entry = DistinctQuery(parse_query(str(number)), (binding.family,), (member,))
    binding.prepare_members(len(members))
    assert binding.is_ready
    bound = bound or ShapeBindings()
    bound.add_binding(binding)
    finding = ShapeBatch([tuple(tree.values)])
    match_batches([(bound, finding)])
    matching = finding.matching[0] or []
    open_members = [each for entry in finding.undecided.get(0, ()) for each in entry.members]
    assert not (open_members if binding.is_decided else matching)
    return sorted({member.literals for member in (*matching, *open_members)})


def test_one_query_with_a_long_negation_is_left_to_evaluate() -> None:
    binding, tree = bound("not(//leg[a > 59])")
    assert not binding.is_decided
    assert found(binding, tree) == [(59.0,)]


def test_many_queries_with_a_long_negation_are_looked_up() -> None:
    binding, tree = bound(*(f"not(//leg[a > {bound}])" for bound in range(50, 70)))
    assert binding.is_decided
    assert found(binding, tree) == [(float(n),) for n in range(59, 70)]


def test_a_conjunction_on_one_of_many_elements_is_looked_up() -> None:
    binding, tree = bound("//leg[a = 8 and b = 1]", "//leg[a = 8 and b = 2]")
    assert binding.is_decided
    assert found(binding, tree) == [(8.0, 1.0)]


def test_a_constant_that_is_no_number_equals_no_literal() -> None:
    binding, tree = bound("number(/nothing) = 'x' and //a = 1", "number(/nothing) = 3 and //a = 1")
    assert found(binding, tree) == []


def test_a_large_family_is_indexed_before_the_first_look_up() -> None:
    binding, _ = bound(*(f"//leg[a = {n} and b = 1]" for n in range(EARLY_INDEX_SIZE - 1)))
    assert not binding.is_ready
    binding, tree = bound(*(f"//leg[a = {n} and b = 1]" for n in range(EARLY_INDEX_SIZE + 9)))
    assert binding.is_ready
    assert found(binding, tree) == [(float(n), 1.0) for n in range(1, 60, 7)]


@pytest.mark.parametrize(
    "query", ["//leg[a = {} and b = 1] and count(//leg[a > 3]) > 2", "not(//leg[a > {}])"]
)
def test_a_family_is_indexed_in_portions_while_queries_change(query: str) -> None:
    binding, tree = bound(*(query.format(n) for n in range(200)))
    family = binding.family
    assert binding.prepare_members(50) == 50 and not binding.is_ready
    for member in list(family.members)[40:60]:
        family.remove_member(member)
    (instance,) = extract_templates(parse_query(query.format(9999)))
    family.add_member(instance.literals)
    turns = 0
    while not binding.is_ready:
        assert binding.prepare_members(50) <= 50
        turns += 1
    assert turns == 3
    expected = {n for n in range(200) if n not in range(40, 60)} | {9999}
    wanted = [n for n in expected if (n > 58 if "not" in query else n % 7 == 1 and n < 60)]
    assert [literals[0] for literals in found(binding, tree)] == sorted(map(float, wanted))


def test_lookups_of_a_removed_family_are_not_used_for_a_later_one() -> None:
    """Lists of conjunctions are identified by their address, which may be reused."""
    pool = IndexPool()
    binding, tree = bound("//leg[a = 8]", pool=pool)
    other, _ = bound("//leg[a = 8] and count(//leg[b > 1]) > 2", pool=pool)
    later, _ = bound("//leg[b = 3]", pool=pool)
    asked = ShapeBindings()
    for each in (binding, other):
        asked.add_binding(each)
    binding.family.is_dead = True
    asked.drop_dead_families()
    assert isinstance(binding, IndexedBinding) and isinstance(later, IndexedBinding)
    place = binding.conjunctions
    place[:] = later.conjunctions
    later.conjunctions = place
    assert found(later, tree, asked) == [(3.0,)]
