"""Every engine against the oracle of DESIGN 5, with random valid events and queries (A18)."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.dtd.dtd import Dtd
from broker.event.envelope import Liveness
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted
from broker.matching.query.query import parse_query
from tests.matching.conftest import ENGINES, KnownDtds, event
from tests.matching.unlimited import ANY_COST

_VALUES = st.sampled_from(
    [
        "",
        " ",
        "0",
        "-0",
        "290",
        " 290 ",
        "+5",
        "1_000",
        "inf",
        "1e3",
        ".5",
        "UAL1",
        "é<&>\"'",
        "]]>",
    ]
    + ["123456789012345678901", "0.1000000000000000055", "x y", "290a"]
)
_TEXT = _VALUES.map(escape)
_GAP = st.sampled_from(["", "", "\n  ", " \n\t", "<!-- r -->", "<?t d?>"])


@st.composite
def payloads(draw: st.DrawFn) -> str:
    """Draw a flight that is valid by the test DTD."""
    parts = ["<flight", draw(st.sampled_from(["", " kind='charter'", ' xmlns:x="urn:x"'])), ">"]
    linked = "xmlns:x" in parts[1] and draw(st.booleans())
    parts += [draw(_GAP), f"<id>{draw(_TEXT)}</id>"]
    for _ in range(draw(st.integers(0, 3))):
        status = draw(st.none() | _VALUES)
        parts.append(draw(_GAP) + "<leg" + (f" status={quoteattr(status)}" if status else "") + ">")
        for name in ("altitude", "speed"):
            if draw(st.booleans()):
                parts.append(draw(_GAP) + f"<{name}>{draw(_TEXT)}</{name}>")
        parts.append("</leg>")
    for _ in range(draw(st.integers(0, 2))):
        text = draw(st.sampled_from(["", "<![CDATA[a&b]]>"])) + draw(_TEXT)
        parts.append(draw(_GAP) + f"<remark text={quoteattr(draw(_VALUES))}>{text}</remark>")
    if linked:
        parts.append("<x:link href='h'/>")
    return "".join([*parts, draw(_GAP), "</flight>"])


_PATHS = st.sampled_from(
    "/flight/id //id //leg /flight/leg/altitude //altitude //@status /flight/@kind leg/speed "
    ".//text() //remark/@text /node() //comment() /*/*[last()] //leg[altitude]/speed ../flight "
    "//p:link/@href //leg[position()=2] //altitude/ancestor::leg //speed/preceding-sibling::* (/) "
    ". //leg[not(*)] //*[@kind] (//leg)[1]/* //leg[1]/altitude /flight[.//speed]/id "
    "//processing-instruction('t')".split()
)
_LITERALS = st.one_of(
    st.sampled_from(["290", "0", "-5", "0.1", "1e3", "5", "123456789012345678901"]),
    st.sampled_from(["'290'", "'UAL1'", "''", "'charter'", "' '", "'x'"]),
)


def _calls(operand: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(st.sampled_from(["string", "number", "boolean", "not"]), operand).map(
            lambda t: f"{t[0]}({t[1]})"
        ),
        st.tuples(st.sampled_from(["normalize-space", "string-length", "floor"]), operand).map(
            lambda t: f"{t[0]}({t[1]})"
        ),
        st.tuples(st.sampled_from(["contains", "starts-with"]), operand, operand).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
        st.tuples(
            operand,
            st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "+", "-", "*", "div", "mod"]),
            operand,
        ).map(" ".join),
        st.tuples(operand, st.sampled_from([" and ", " or "]), operand).map("".join),
        st.tuples(st.just("("), operand, st.just(")")).map("".join),
        st.tuples(st.just("//leg["), operand, st.just("]")).map("".join),
        st.tuples(st.sampled_from(["count(", "sum("]), _PATHS, st.just(")")).map("".join),
    )


_QUERIES = st.recursive(_PATHS | _LITERALS, _calls, max_leaves=6)


def oracle(query: str, payload: str) -> bool:
    root = etree.fromstring(payload)
    root.set("kind", root.get("kind", "scheduled"))
    evaluate = etree.XPath(f"boolean({query})", namespaces={"p": "urn:x"}, regexp=False)
    return bool(evaluate(root))


@pytest.mark.parametrize("name", sorted(ENGINES))
@settings(max_examples=300)
@given(
    events=st.lists(payloads(), min_size=1, max_size=3),
    queries=st.lists(_QUERIES, min_size=1, max_size=6),
)
def test_engine_agrees_with_the_oracle(
    name: str, flight_dtd: Dtd, ticking: Any, events: list[str], queries: list[str]
) -> None:
    engine = ENGINES[name](KnownDtds(flight_dtd), clock=ticking)
    pattern = StreamPattern.parse(">")
    numbers = {
        engine.subscribe(pattern, parse_query(query, {"p": "urn:x"}, ANY_COST)): query
        for query in queries
    }
    documents = [event(payload.encode()) for payload in events]
    verdicts = engine.match(documents)
    accepted = [verdict for verdict in verdicts if isinstance(verdict, Accepted)]
    assert accepted == verdicts
    for payload, verdict in zip(events, accepted, strict=True):
        expected = [number for number, query in numbers.items() if oracle(query, payload)]
        assert list(verdict.subscriptions) == expected, (payload, queries)
    for number in numbers:
        expected_selection = [number in verdict.subscriptions for verdict in accepted]
        assert engine.select(number, documents, Liveness.LIVE) == expected_selection
