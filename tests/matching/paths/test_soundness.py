"""Every match in lxml is a candidate; exact requirements give no other candidates (A18)."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.matching.paths.index import PathIndex
from broker.matching.paths.pattern import DocumentRole
from broker.matching.query.query import parse_query
from tests.matching.paths.test_requirement_derivation import derive_requirements
from tests.matching.unlimited import ANY_COST

NAMESPACES = {"p": "urn:p"}
_NAMES = st.sampled_from(["a", "b", "c", "p:a", "p:b"])
_VALUES = st.sampled_from(["", "0", "5", "-1", "7.5", "U", "UAL1", "inf", " "])


@st.composite
def trees(draw: st.DrawFn, depth: int = 4, top: bool = True) -> str:
    """A document of a few names, with attributes, text between elements and comments."""
    name = draw(_NAMES)
    attributes = "".join(
        f" {each}={quoteattr(draw(_VALUES))}"
        for each in draw(st.lists(st.sampled_from(["x", "y", "p:x"]), max_size=2, unique=True))
    )
    parts = [draw(_VALUES)]
    for _ in range(draw(st.integers(0, 3)) if depth else 0):
        parts.append(draw(st.just("<!-- r -->") | trees(depth - 1, False)) + draw(_VALUES))
    declared = ' xmlns:p="urn:p"' if top else ""
    return f"<{name}{declared}{attributes}>{''.join(parts)}</{name}>"


_TESTS = st.sampled_from(["a", "b", "c", "p:a", "p:*", "*", "*", "node()", "text()", "comment()"])
_AXES = st.sampled_from(
    ["", "", "", "", "", "self::", "descendant::", "descendant-or-self::", "parent::"]
    + ["ancestor::", "ancestor-or-self::", "following::", "preceding::"]
    + ["following-sibling::", "preceding-sibling::", "child::"]
)
_STEPS = st.one_of(
    st.tuples(_AXES, _TESTS).map("".join),
    st.tuples(_AXES, _TESTS).map("".join),
    st.sampled_from(["@x", "@*", "@p:x", "@y", "@node()", ".", "..", "namespace::*"]),
)


def _paths(predicate: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    suffix = st.just("") | st.just("") | predicate.map(lambda text: f"[{text}]")
    step = st.tuples(_STEPS, suffix).map(lambda t: t[0] if t[0] in (".", "..") else "".join(t))
    onward = st.lists(st.tuples(st.sampled_from(["/", "//"]), step).map("".join), max_size=3)
    start = st.sampled_from(["", "", "/", "//", ".//"])
    return st.tuples(start, step, onward.map("".join)).map("".join)


_LITERALS = st.sampled_from(["'U'", "''", "'5'", "5", "0", "1", "-1", "true()", "false()"])
_COMPARISONS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])


def _more(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    path = _paths(inner)
    return st.one_of(
        path,
        st.tuples(inner, st.sampled_from([" and ", " or "]), inner).map("".join),
        st.tuples(inner, _COMPARISONS, inner).map(" ".join),
        st.tuples(path, _COMPARISONS, _LITERALS).map(" ".join),
        st.tuples(inner, st.sampled_from(["+", "*", "div", "mod", "-"]), inner).map(" ".join),
        st.tuples(
            st.sampled_from("not boolean string number normalize-space string-length".split()),
            inner,
        ).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(st.sampled_from(["count", "sum", "name"]), path).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(
            st.sampled_from(["starts-with", "contains", "substring-after"]), inner, inner
        ).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        st.tuples(path, path).map(lambda t: f"({t[0]} | {t[1]})"),
        st.tuples(path, inner, _STEPS).map(lambda t: f"({t[0]})[{t[1]}]/{t[2]}"),
        st.tuples(path, st.sampled_from(["1", "2", "last()", "position()=2"])).map(
            lambda t: f"({t[0]})[{t[1]}]"
        ),
        inner.map(lambda text: f"-({text})"),
        inner.map(lambda text: f"({text})"),
    )


QUERIES = st.recursive(_paths(_LITERALS) | _LITERALS, _more, max_leaves=5)


@settings(max_examples=300)
@given(
    documents=st.lists(trees(), min_size=1, max_size=3),
    queries=st.lists(QUERIES, min_size=1, max_size=6, unique=True),
    early=st.integers(0, 6),
    gone=st.integers(0, 2),
)
def test_every_match_is_a_candidate_and_exact_results_agree_with_lxml(
    documents: list[str], queries: list[str], early: int, gone: int
) -> None:
    index: PathIndex[str] = PathIndex()
    parsed = [etree.fromstring(document) for document in documents]

    def add(texts: list[str]) -> None:
        for text in texts:
            index.add_item(derive_requirements(parse_query(text, NAMESPACES, ANY_COST)), text)

    add(queries[:early])
    for root in parsed:  # Fills the cache; later changes must update it.
        index.find_candidates(index.label_paths.collect_from_tree(root, DocumentRole.PAYLOAD))
    for text in queries[: min(early, gone)]:
        index.remove_item(text)
    add(queries[early:])
    for text in queries[: min(early, gone)]:
        add([text])
    for document, root in zip(documents, parsed, strict=True):
        found = index.find_candidates(
            index.label_paths.collect_from_tree(root, DocumentRole.PAYLOAD)
        )
        possible, certain = set(index.items_in(found.possible)), set(index.items_in(found.certain))
        for text in queries:
            evaluate = etree.XPath(f"boolean({text})", namespaces=NAMESPACES, regexp=False)
            matches = bool(evaluate(root))
            needs = derive_requirements(parse_query(text, NAMESPACES, ANY_COST))
            if matches:
                assert text in possible, (document, text, str(needs))
            if needs.exact:
                assert matches == (text in certain), (document, text, str(needs))
            else:
                assert text not in certain
