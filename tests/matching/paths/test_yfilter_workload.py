"""The published workload of XML filtering: paths over the NITF DTD (YFilter; F2, A18)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from broker.matching.paths.index import PathIndex
from broker.matching.paths.pattern import DocumentRole
from broker.matching.query.query import parse_query
from tests.matching.paths.test_requirement_derivation import derive_requirements

#: Steps of a path, and the probability of `*` and of `//` in a step.
LEVELS, STAR, DESCENDANT = 6, 0.2, 0.2


class Nitf:
    """The DTD's content models, and random paths and documents from them."""

    def __init__(self, folder: Path) -> None:
        dtd: Any = etree.DTD(str(folder / "nitf-benchmark" / "nitf-3-0.dtd"))
        elements = {str(e.name): e for e in dtd.iterelements()}
        self.children = {
            name: sorted(self._names(e.content) & elements.keys()) for name, e in elements.items()
        }
        self.attributes = {
            name: [str(a.name) for a in e.iterattributes()] for name, e in elements.items()
        }

    def _names(self, content: object) -> set[str]:
        if content is None:
            return set()
        own = {str(getattr(content, "name", None))}
        return own.union(*(self._names(getattr(content, side)) for side in ("left", "right")))

    def path(self, chance: random.Random, attribute: float) -> str:
        name, text = "nitf", ""
        for level in range(LEVELS):
            text += "//" if chance.random() < DESCENDANT else "/"
            text += "*" if chance.random() < STAR else name
            if chance.random() < attribute and self.attributes[name]:
                text += f"[@{chance.choice(self.attributes[name])}]"
            if level < LEVELS - 1 and not self.children[name]:
                break
            name = chance.choice(self.children[name] or [name])
        return text

    def document(self, chance: random.Random, elements: int = 150) -> etree._Element:
        root = etree.Element("nitf")
        growing = [root]
        while elements and growing:
            parent = chance.choice(growing)
            names = self.children[str(parent.tag)]
            if not names or len(parent) > 5:
                growing.remove(parent)
                continue
            child = etree.SubElement(parent, chance.choice(names))
            for name in self.attributes[str(child.tag)]:
                if chance.random() < 0.1:
                    child.set(name, "v")
            growing.append(child)
            elements -= 1
        return root


@pytest.mark.parametrize("attribute", [0.0, 0.3])
def test_paths_over_nitf_agree_with_lxml(shared_data: Path, attribute: float) -> None:
    nitf = Nitf(shared_data)
    chance = random.Random(7)
    index: PathIndex[str] = PathIndex()
    exact: dict[str, bool] = {}
    while len(exact) < 1500:
        text = nitf.path(chance, attribute)
        if text not in exact:
            needs = derive_requirements(parse_query(text))
            exact[text] = needs.exact
            index.add_item(needs, text)
    compiled = {text: etree.XPath(f"boolean({text})", regexp=False) for text in exact}
    for _ in range(6):
        root = nitf.document(chance)
        found = index.find_candidates(
            index.label_paths.collect_from_tree(root, DocumentRole.PAYLOAD)
        )
        possible, certain = set(index.items_in(found.possible)), set(index.items_in(found.certain))
        matching = {text for text, evaluate in compiled.items() if evaluate(root)}
        assert matching <= possible
        assert certain == {text for text in matching if exact[text]}
        # Only lxml distinguishes attributes of different nodes with the same label path.
        assert 2 * len(possible - matching) <= len(possible)
    assert all(exact.values()) == (attribute == 0)
