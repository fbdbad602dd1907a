from __future__ import annotations

import pytest

from broker.errors import ConfigurationError
from broker.event.envelope import Order
from broker.event.merging.settings import Merging
from broker.event.merging.vocabulary import (
    Constraint,
    ConstraintKind,
    Rule,
    Scheme,
    parse_constraint,
    parse_rule,
    rule_of,
)
from tests.event.merging.schedules import linked


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("", Constraint()),
        (" None\n", Constraint()),
        ("within 250ms", Constraint(ConstraintKind.WITHIN, 250)),
        ("Within  2 s", Constraint(ConstraintKind.WITHIN, 2000)),
        ("within 0ms", Constraint(ConstraintKind.WITHIN, 0)),
        ("window 2min", Constraint(ConstraintKind.WINDOW, 120_000)),
        ("window 1h", Constraint(ConstraintKind.WINDOW, 3_600_000)),
    ],
)
def test_a_constraint_is_read(text: str, meaning: Constraint) -> None:
    assert parse_constraint(text) == meaning
    assert parse_constraint(str(meaning)) == meaning


@pytest.mark.parametrize(
    "text",
    [
        *("250ms", "within", "within 250", "within -1s", "within 1.5s", "window 0s", "within 2h"),
        *("about 2s", "within 2s or so", "within ２s", "none 2s", "within 9999999999ms"),
    ],
)
def test_other_words_are_none_of_ours(text: str) -> None:
    assert parse_constraint(text) is None
    assert rule_of(linked(text, "time")) == (None, (text,))


@pytest.mark.parametrize(
    ("constraint", "scheme", "expected"),
    [
        (None, None, None),
        ("", "", None),
        ("none", None, None),
        ("within 1s", "NONE", None),
        ("within 1s", "arrival", None),
        ("within 1s", None, Scheme.TIME),
        (None, "time", Scheme.TIME),
        (None, " Bundle ", Scheme.BUNDLE),
    ],
)
def test_a_linkage_names_its_scheme(
    constraint: str | None, scheme: str | None, expected: Scheme | None
) -> None:
    rule, unknown = rule_of(linked(constraint, scheme, "a", "#b"))
    assert (rule and rule.scheme, unknown) == (expected, ())
    if rule is not None:
        assert rule.order == (Order("a"), Order("b", is_bundle=True))


def test_a_burst_begins_with_its_first_event_or_with_its_window() -> None:
    assert Constraint(ConstraintKind.WITHIN, 100).burst_bounds(1234) == (1234, 1334)
    assert Constraint(ConstraintKind.WINDOW, 100).burst_bounds(1234) == (1200, 1299)
    assert Constraint().burst_bounds(1234) == (1234, 1234)


def test_a_subscriber_writes_a_rule() -> None:
    order = (Order("asdi.fp"), Order("x", is_bundle=True))
    within = Constraint(ConstraintKind.WITHIN, 250)
    assert parse_rule("time within 250ms", ["asdi.fp", " bundle:x"]) == Rule(
        Scheme.TIME, within, order
    )
    assert parse_rule("within 250ms") == Rule(Scheme.TIME, within)
    assert parse_rule("bundle") == Rule(Scheme.BUNDLE)
    assert Merging.by("Linked") == Merging()
    assert Merging.by("time", ["a"], wait=3.0) == Merging(
        Rule(Scheme.TIME, order=(Order("a"),)), wait=3.0
    )


@pytest.mark.parametrize("text", ["", "arrival", "zip", "time within", "none", "time time"])
def test_an_unknown_rule_is_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not a merge rule"):
        Merging.by(text)


@pytest.mark.parametrize(
    "bad",
    [
        {"wait": -1.0},
        {"wait": float("nan")},
        {"idle": float("inf")},
        {"longest": -0.1},
        {"max_events": 0},
        {"max_bytes": 0},
    ],
)
def test_a_merge_without_bounds_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError):
        Merging(**bad)  # type: ignore[arg-type]


def test_an_order_is_the_events_own_or_the_subscribers() -> None:
    with pytest.raises(ConfigurationError, match="the events give"):
        Merging.by("linked", ["a"])
    with pytest.raises(ConfigurationError, match="empty"):
        Merging.by("time", ["a", ""])
