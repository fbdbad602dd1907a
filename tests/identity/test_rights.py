from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.event.stream import StreamPattern
from broker.identity import Rights


def patterns(texts: str) -> tuple[StreamPattern, ...]:
    return tuple(StreamPattern.parse(text) for text in texts.split())


def rights(publish: str = "", subscribe: str = "", deny: str = "") -> Rights:
    return Rights(
        publish=patterns(publish),
        subscribe=patterns(subscribe),
        deny_publish=patterns(deny),
        deny_subscribe=patterns(deny),
    )


@pytest.mark.parametrize(
    ("allowed", "stream", "may"),
    [
        ("", "asdi", False),
        ("asdi.>", "asdi.zbw.tz", True),
        ("asdi.>", "asdi", False),
        ("asdi.*.tz", "asdi.zbw.tz", True),
        ("asdi.*.tz", "asdi.zbw.to", False),
        ("chat asdi.zbw", "asdi.zbw", True),
    ],
)
def test_publishing_needs_one_pattern_that_matches_the_stream(
    allowed: str, stream: str, may: bool
) -> None:
    assert rights(publish=allowed).may_publish(stream) is may


@pytest.mark.parametrize(
    ("allowed", "wanted", "may"),
    [
        ("", "asdi", False),
        ("asdi.>", "asdi.zbw", True),
        ("asdi.>", "asdi.*", True),
        ("asdi.>", "asdi.*.>", True),
        ("asdi.>", ">", False),
        ("asdi.>", "*.zbw", False),
        ("asdi.*", "asdi.>", False),
        ("asdi.zbw", "asdi.*", False),
        ("*.zbw", "asdi.zbw", True),
        (">", ">", True),
    ],
)
def test_a_subscription_must_lie_within_the_rights(allowed: str, wanted: str, may: bool) -> None:
    assert rights(subscribe=allowed).may_subscribe(StreamPattern.parse(wanted)) is may


def test_two_patterns_do_not_add_up_to_a_wider_one() -> None:
    assert not rights(subscribe="asdi asdi.>").may_subscribe(StreamPattern.parse(">"))
    assert not rights(subscribe="a.x b.x").may_subscribe(StreamPattern.parse("*.x"))


def test_one_right_does_not_give_the_other() -> None:
    assert not rights(publish=">").may_subscribe(StreamPattern.parse("asdi"))
    assert not rights(subscribe=">").may_publish("asdi")


@pytest.mark.parametrize(
    ("stream", "may"),
    [("asdi.zbw", True), ("asdi.secret", False), ("asdi.secret.a", True), ("b.x.key", False)],
)
def test_a_denied_stream_is_not_published_to(stream: str, may: bool) -> None:
    assert rights(publish=">", deny="asdi.secret *.*.key").may_publish(stream) is may


@pytest.mark.parametrize(
    ("pattern", "may"),
    [
        (">", False),
        ("asdi.>", False),
        ("asdi.*", True),
        ("*.secret.*", False),
        ("*.secret.>", False),
        ("asdi.secret.x", False),
        ("asdi.secret", True),
        ("asdi.zbw.>", True),
        ("a.*.key", False),
        ("a.b.k", True),
        ("a.>", False),
    ],
)
def test_a_subscription_that_overlaps_a_denied_stream_is_refused(pattern: str, may: bool) -> None:
    denied = rights(subscribe=">", deny="asdi.secret.> a.b.key")
    assert denied.may_subscribe(StreamPattern.parse(pattern)) is may


NAME = st.lists(st.sampled_from("ab"), min_size=1, max_size=4).map(".".join)
PATTERN = st.tuples(
    st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=3), st.sampled_from(["", ".>"])
).map(lambda parts: ".".join(parts[0]) + parts[1])


@given(allowed=PATTERN, denied=PATTERN, wanted=PATTERN, stream=NAME)
def test_no_allowed_subscription_reaches_a_stream_that_is_not_open(
    allowed: str, denied: str, wanted: str, stream: str
) -> None:
    pattern = StreamPattern.parse(wanted)
    if pattern.matches(stream):
        if rights(subscribe=allowed).may_subscribe(pattern):
            assert StreamPattern.parse(allowed).matches(stream)
        if rights(subscribe=">", deny=denied).may_subscribe(pattern):
            assert not StreamPattern.parse(denied).matches(stream)
