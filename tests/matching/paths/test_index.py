"""The index stays correct and bounded while patterns and label paths change."""

from __future__ import annotations

import random

import pytest
from lxml import etree

from broker.event.envelope import NAMESPACE
from broker.matching.paths.accepted_rows import MAX_JOURNAL
from broker.matching.paths.index import PathIndex
from broker.matching.paths.label_path import LabelPathTable
from broker.matching.paths.pattern import DocumentRole, LabelKind
from broker.matching.query.query import parse_query
from broker.matching.shape.tree import Node, NodeKind
from tests.matching.paths.test_requirement_derivation import derive_requirements

_TREE = etree.fromstring('<a y="1"><b><c/>t</b><b x="2"/><!-- r -->tail</a>')


def _add(index: PathIndex[str], text: str, item: str | None = None) -> int:
    return index.add_item(derive_requirements(parse_query(text)), item or text)


def _found(index: PathIndex[str], root: etree._Element = _TREE) -> set[str]:
    paths = index.label_paths.collect_from_tree(root, DocumentRole.PAYLOAD)
    return set(index.items_in(index.find_candidates(paths).possible))


def test_each_label_path_is_collected_once_and_texts_behind_comments_too() -> None:
    paths = LabelPathTable()
    found = paths.collect_from_tree(_TREE, DocumentRole.PAYLOAD)
    names = sorted("/".join(keys[0] for keys in path.label_keys()) for path in found)
    a, b = "e{}a", "e{}a/e{}b"
    assert names == sorted(
        [a, f"{a}/@{{}}y", f"{a}/t{{}}", b, f"{b}/@{{}}x", f"{b}/t{{}}", f"{b}/e{{}}c"]
    )
    assert paths.collect_from_tree(_TREE, DocumentRole.PAYLOAD) == found
    plain = paths.collect_from_tree(_TREE, DocumentRole.PAYLOAD, attributes=False, texts=False)
    assert {path.kind for path in plain} == {LabelKind.ELEMENT} and plain < found


def test_the_tree_of_a_shape_has_the_label_paths_of_its_documents() -> None:
    paths = LabelPathTable()
    top = Node(NodeKind.ROOT, None, 0)
    a = Node(NodeKind.ELEMENT, top, 1, local="a")
    a.attributes.append(Node(NodeKind.ATTRIBUTE, a, 2, local="x", value=0))
    b = Node(NodeKind.ELEMENT, a, 3, namespace="urn:p", local="b")
    b.children.append(Node(NodeKind.TEXT, b, 4, value=1))
    a.children.append(b)
    top.children.append(a)
    same = etree.fromstring('<a x="1" xmlns:p="urn:p"><p:b>5</p:b></a>')
    expected = paths.collect_from_tree(same, DocumentRole.PAYLOAD)
    assert paths.collect_from_shape(top, DocumentRole.PAYLOAD) == expected
    assert paths.collect_from_shape(a, DocumentRole.PAYLOAD) == expected


def test_items_with_shared_patterns_are_independent() -> None:
    index: PathIndex[str] = PathIndex()
    for item, text in {"1": "/a/b", "2": "/a/b", "3": "/a[z]", "4": "//c or //z"}.items():
        _add(index, text, item)
    assert _found(index) == {"1", "2", "4"}
    index.remove_item("1")
    number = _add(index, "//@y", "5")
    assert _found(index) == {"2", "4", "5"} and index.items_in(1 << number) == ["5"]
    for item in ("2", "3", "4", "5"):
        index.remove_item(item)
    automaton = index._automaton
    assert not (_found(index) or index._rows_by_item or len(automaton) or automaton.state_count)


def test_an_item_is_indexed_once_and_an_unknown_one_can_not_be_removed() -> None:
    index: PathIndex[str] = PathIndex()
    number = _add(index, "false()")
    assert _found(index) == set()
    with pytest.raises(ValueError, match="indexed already"):
        _add(index, "false()")
    with pytest.raises(KeyError):
        index.remove_item("//a")
    index.remove_item("false()")
    assert index.items_in(1 << number) == []


def test_the_envelope_and_the_payload_are_different_documents() -> None:
    index: PathIndex[str] = PathIndex()
    _add(index, "/Mspaces:Event/Mspaces:Summary")
    event = etree.fromstring(f'<m:Event xmlns:m="{NAMESPACE}"><m:Summary/></m:Event>')
    of_tree = index.label_paths.collect_from_tree
    assert index.find_candidates(of_tree(event, DocumentRole.PAYLOAD)).possible == 0
    found = index.find_candidates(
        of_tree(event, DocumentRole.ENVELOPE) | of_tree(_TREE, DocumentRole.PAYLOAD)
    )
    assert found.possible == found.certain == 1


@pytest.mark.parametrize("bounds", [(1, 1), (3, 2000), (65536, 128 * 1024 * 1024)])
def test_results_do_not_depend_on_cache_sizes(bounds: tuple[int, int]) -> None:
    chance = random.Random(5)
    index: PathIndex[str] = PathIndex(*bounds)
    texts = sorted({"".join(chance.choices(["/a", "//b", "/*", "//c"], k=3)) for _ in range(60)})
    present: list[str] = []
    for turn in range(150):
        if present and chance.random() < 0.4:
            gone = present.pop(chance.randrange(len(present)))
            index.remove_item(gone)
        else:
            rest = [text for text in texts if text not in present]
            if rest:
                present.append(chance.choice(rest))
                _add(index, present[-1])
        root = etree.Element("a")
        here = root
        for _ in range(turn % 7):
            here = etree.SubElement(here, chance.choice("abc"))
        expected = {text for text in present if bool(root.xpath(f"boolean({text})"))}
        assert _found(index, root) == expected
    assert len(index.label_paths) <= bounds[0]
    assert index._accepted_rows.bytes <= max(bounds[1], 1000)


def test_a_label_path_behind_the_journal_is_computed_again() -> None:
    index: PathIndex[str] = PathIndex()
    _add(index, "/a/b")
    assert _found(index) == {"/a/b"}
    before = index._accepted_rows.computed
    _add(index, "//x")
    assert _found(index) == {"/a/b"}
    assert index._accepted_rows.computed == before
    for _ in range(MAX_JOURNAL):
        _add(index, "/a/b/c")
        index.remove_item("/a/b/c")
    _add(index, "//c")
    assert _found(index) == {"/a/b", "//c"}
    assert index._accepted_rows.computed == 2 * before
