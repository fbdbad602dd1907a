"""Random queries that often cover each other, and documents that often distinguish them."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from hypothesis import strategies as st
from lxml import etree

from broker.errors import BadQuery
from broker.matching.covering.implication import implies
from broker.matching.covering.normal_form import normalise_query
from broker.matching.query.query import Query, parse_query
from tests.matching.unlimited import ANY_COST

_NAMES = st.sampled_from(["a", "b", "c"])
_VALUES = st.sampled_from(["", "5", "7", "7.0", "9", "-1", "U", "UA", "UAL1", "inf", " 7 "])


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> str:
    name = draw(_NAMES)
    attributes = "".join(
        f" {each}={quoteattr(draw(_VALUES))}"
        for each in draw(st.lists(st.sampled_from(["x", "y"]), max_size=2, unique=True))
    )
    count = draw(st.integers(0, 3)) if depth else 0
    inside = "".join(draw(trees(depth - 1)) for _ in range(count)) or escape(draw(_VALUES))
    return f"<{name}{attributes}>{inside}</{name}>"


_CONSTANTS = st.sampled_from(
    ["5", "7", "9", "-1", "0", "'7'", "'U'", "'UA'", "'UAL1'", "''", "'x'"]
)
_OPERATORS = st.sampled_from(["=", "=", "!=", "<", "<=", ">", ">="])
_OPERANDS = st.sampled_from(
    [".", "@x", "b", "a/c", ".//c", "//b", "text()", "number(b)", "count(b)"]
)
_TESTS = st.one_of(
    st.tuples(_OPERANDS, _OPERATORS, _CONSTANTS).map(" ".join),
    st.tuples(
        st.sampled_from(["starts-with", "contains"]),
        st.sampled_from([".", "@x", "b", "string(.)", "string(@x)", "normalize-space(c)"]),
        st.sampled_from(["'U'", "'UA'", "'A'", "'L'", "''"]),
    ).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
    st.sampled_from(["b", "@x", ".//c", "not(b)", "not(@x = 'U')", "1", "last()", "b[1]", "../b"]),
    st.sampled_from(["position() > 1", "self::b", "count(c) > 0", "string(b)", "b = c", "true()"]),
)
_PREDICATES = st.recursive(
    _TESTS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" and ", " or "]), inner).map("".join),
        st.tuples(st.sampled_from(["b", "*", ".//c"]), inner).map(lambda t: f"{t[0]}[{t[1]}]"),
        inner.map(lambda text: f"not({text})"),
    ),
    max_leaves=3,
)
_STEPS = st.tuples(
    st.sampled_from(["/", "/", "//"]),
    st.sampled_from(["a", "b", "c", "*", "*", "node()", "text()", "@x", "@*"]),
    st.just("") | st.just("") | _PREDICATES.map(lambda text: f"[{text}]"),
).map("".join)
_PATHS = st.lists(_STEPS, min_size=1, max_size=3).map("".join)
TEXTS = st.recursive(
    st.one_of(
        _PATHS,
        _PATHS,
        st.tuples(_PATHS, _OPERATORS, _CONSTANTS).map(" ".join),
        st.tuples(st.just("/a/b"), _OPERATORS, _CONSTANTS).map(" ".join),
        st.tuples(_PATHS, _PATHS).map(lambda t: f"{t[0]} | {t[1]}"),
        st.tuples(_PATHS, _PREDICATES).map(lambda t: f"({t[0]})[{t[1]}]"),
        _PREDICATES,
        st.sampled_from(["true()", "false()", "a", "."]),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" and ", " or "]), inner).map(
            lambda t: f"({t[0]}){t[1]}({t[2]})"
        ),
        inner.map(lambda text: f"not({text})"),
    ),
    max_leaves=3,
)


def query(text: str) -> Query | None:
    """Parse the query; None if it is valid in a predicate only."""
    try:
        return parse_query(text, limits=ANY_COST)
    except BadQuery:
        return None


def matches(asked: Query, root: etree._Element) -> bool:
    return bool(etree.XPath(f"boolean({asked.text})", namespaces=dict(asked.namespaces))(root))


def covers(wide: Query, narrow: Query) -> bool:
    """Return True if it is proved that every event that matches `narrow` matches `wide`."""
    return implies(normalise_query(narrow), normalise_query(wide))
