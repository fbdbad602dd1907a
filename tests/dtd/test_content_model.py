from __future__ import annotations

import time
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.dtd.content_model import UnusableModel, count_pairs


def models(names: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    sign = st.sampled_from(["", "", "?", "*", "+"])
    leaf = st.builds(lambda name, occurs: name + occurs, names, sign)

    def group(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.builds(
            lambda parts, separator, occurs: f"({separator.join(parts)}){occurs}",
            st.lists(inner, min_size=1, max_size=4),
            st.sampled_from([",", "|"]),
            sign,
        )

    return group(st.recursive(leaf, group, max_leaves=8))


def libxml2_calls_it_deterministic(model: str) -> bool:
    declarations = f"<!ELEMENT x {model}>" + "".join(f"<!ELEMENT {n} EMPTY>" for n in "abcd")
    dtd = etree.DTD(BytesIO(declarations.encode()))
    dtd.validate(etree.fromstring("<x/>"))
    log: Any = dtd.error_log
    return all(entry.type_name != "DTD_CONTENT_NOT_DETERMINIST" for entry in log)


@settings(max_examples=500)
@given(models(st.sampled_from("abcd")))
def test_libxml2_accepts_all_models_found_deterministic(model: str) -> None:
    try:
        count_pairs(model)
    except UnusableModel as problem:
        # libxml2 accepts (a|a); XML does not.
        assert "not deterministic" in str(problem)
    else:
        assert libxml2_calls_it_deterministic(model)


@pytest.mark.parametrize("model", ["((a,b)|(a,c))", "(a?,a)", "(a*,b?,a)", "((a|b)*,a)", "(a|a)"])
def test_an_ambiguous_model_is_refused_with_the_name(model: str) -> None:
    with pytest.raises(UnusableModel, match="'a' could match two places"):
        count_pairs(model)


@pytest.mark.parametrize("model", ["(a,(b|c))", "(a,a?)", "((b,a)*,c?)", "(a*)*", "((a|b)*)+"])
def test_a_model_in_which_each_element_has_one_place_is_taken(model: str) -> None:
    assert count_pairs(model) >= 1
    assert libxml2_calls_it_deterministic(model)


@pytest.mark.parametrize("model", ["EMPTY", "ANY", "(#PCDATA)", "(#PCDATA|a|b)*", "(a)"])
def test_a_simple_model_costs_nothing(model: str) -> None:
    assert count_pairs(model) == 0


def test_prefixes_tell_names_apart() -> None:
    assert count_pairs("(voe:VOEvent|VOEvent)") == 0
    with pytest.raises(UnusableModel, match="'voe:VOEvent' could match two places"):
        count_pairs("(voe:VOEvent|(voe:VOEvent,a))")


@pytest.mark.parametrize(
    "model",
    [
        "(" + ",".join(["a?"] * 4000) + ")",
        "(" + ",".join(f"a{n}?" for n in range(500)) + ")",
        "(" + ",".join(f"a{n}?" for n in range(300)) + ")*",
        "(" + ",".join(f"a{n}" for n in range(1000)) + ")",
        "(" * 200 + "a" + ")" * 200,
        "(#PCDATA" + "".join(f"|a{n}" for n in range(1001)) + ")*",
    ],
    ids=["same-names", "optionals", "repeated-optionals", "names", "nesting", "mixed"],
)
def test_a_model_that_would_keep_libxml2_busy_is_refused_at_once(model: str) -> None:
    start = time.perf_counter()
    with pytest.raises(UnusableModel):
        count_pairs(model)
    # libxml2 would take a minute and a half.
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize("model", ["(a", "(a,b|c)", "((a)", "(a,"])
def test_a_broken_model_is_refused(model: str) -> None:
    with pytest.raises(UnusableModel):
        count_pairs(model)
