"""The limit on names, which libxml2 never frees (T27)."""

from __future__ import annotations

import pytest

from broker.limit_registry import LimitRegistry
from broker.matching.name_watch import (
    RESERVED_NAMES,
    NameLimits,
    NameWatch,
)
from broker.rate_limited_log import RateLimitedLog

DECLARED = frozenset({"a", "b", "p:c", "k", "xmlns:p"})


def test_distinct_undeclared_names_are_counted_once() -> None:
    watch = NameWatch()
    for _ in range(3):
        watch.count_undeclared(b"<a k='1' z='2'><b/><new>&ent;</new><?pi x?></a>", DECLARED)
    assert watch.count == 4


def names(count: int, prefix: bytes = b"n", mark: bytes = b"<%s%d/>") -> bytes:
    return b"".join(mark % (prefix, number) for number in range(count))


def has_room(watch: NameWatch, text: bytes, holder: str) -> bool:
    return watch.has_room(text, DECLARED, holder)


def test_watch_guards_after_too_many_names() -> None:
    watch = NameWatch(NameLimits(max_names=10))
    watch.count_undeclared(names(9), DECLARED)
    assert not watch.is_guarding
    watch.count_undeclared(b"<other>", DECLARED)
    assert watch.is_guarding


def test_watch_guards_after_too_many_bytes_of_names() -> None:
    watch = NameWatch(NameLimits(max_bytes=1000))
    watch.count_undeclared(b"<%s>" % (b"x" * 999), DECLARED)
    assert not watch.is_guarding
    watch.count_undeclared(b"<%s>" % (b"y" * 10), DECLARED)
    assert watch.is_guarding


@pytest.mark.parametrize("mark", [b"<%s%d/>", b"<?%s%d?>", b"<a %s%d='1'/>"])
def test_a_holder_at_its_bound_has_no_room_and_others_have(mark: bytes) -> None:
    limits = LimitRegistry()
    watch = NameWatch(NameLimits(max_names_of_holder=1_000), limits)
    assert has_room(watch, names(1_000, mark=mark), "bad")
    assert not has_room(watch, names(1_001, mark=mark), "bad")
    watch.count_undeclared(names(1_100, mark=mark), DECLARED, "bad")
    assert has_room(watch, names(1_100, mark=mark), "bad")
    assert not has_room(watch, names(100, b"m", mark), "bad")
    assert has_room(watch, names(900, b"m", mark), "good")
    share = {each.name: each for each in limits}["undeclared-names-of-account"]
    assert (share.find_used(), share.reached) == (1_100, 2)


def test_the_log_names_the_bound_and_its_holder_once() -> None:
    lines: list[str] = []
    log = RateLimitedLog(lines.append, lambda: 0.0)
    watch = NameWatch(NameLimits(max_names=40, max_names_of_holder=20), log=log)
    watch.count_undeclared(names(20), DECLARED, "greedy")
    for _ in range(3):
        assert not has_room(watch, names(1, b"more"), "greedy")
    assert [line.partition(".")[0] for line in lines] == [
        "greedy: the bound undeclared-names-of-account is reached"
    ]


def test_long_names_count_by_their_bytes() -> None:
    watch = NameWatch(NameLimits(max_bytes_of_holder=10_000))
    assert has_room(watch, b"<%s/>" % (b"x" * 9_900), "bad")
    assert not has_room(watch, b"<%s/>" % (b"x" * 10_001), "bad")
    assert not has_room(watch, b"<a xmlns='%s'/>" % (b"x" * 10_001), "bad")


def test_a_holder_has_a_reserve_when_others_have_used_up_the_total() -> None:
    watch = NameWatch(NameLimits(max_names=1_000, max_names_of_holder=400))
    for number in range(3):
        watch.count_undeclared(names(400, b"h%d-" % number), DECLARED, f"bad{number}")
    assert watch.is_guarding
    # Events of other nodes and of logs have a reserve, too.
    assert has_room(watch, names(RESERVED_NAMES), "")
    assert not has_room(watch, names(RESERVED_NAMES + 1), "")
    assert not has_room(watch, names(9), "bad1")
    assert has_room(watch, names(RESERVED_NAMES, b"m"), "good")
    assert not has_room(watch, names(2 * RESERVED_NAMES, b"m"), "good")


def test_only_documents_that_could_exceed_the_room_are_checked_before_the_parse() -> None:
    watch = NameWatch(NameLimits(max_names_of_holder=1_000))
    assert not watch.may_exceed(3_000, "one")
    assert watch.may_exceed(3_001, "one")
    watch.count_undeclared(names(1_100), DECLARED, "one")
    assert watch.may_exceed(4, "one") and not watch.may_exceed(3_000, "other")


def test_many_declared_names_and_texts_are_not_new() -> None:
    watch = NameWatch(NameLimits(max_names_of_holder=10))
    text = b"<a k='1'><b/>x = y 'z' &amp; &#65;<!-- <z> --><![CDATA[<z1> &z2;]]></a>" * 500
    assert has_room(watch, text, "one")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"<a><b k='x'>text</b><p:c xmlns:p=\"u>v\"/></a>", False),
        (b"<a>&amp;&#65;&#x41; x = y 'z' \"</a>", False),
        (b"<a><!-- <z> --><![CDATA[<z> &z;]]></a>", False),
        (b'<a k = \'z="1" <\'\n k="\'"/>', False),
        (b"<z/>", True),
        (b"<a></z>", True),
        (b"<a z='1'/>", True),
        (b"<a k='1'z='1'/>", True),
        (b"<a z/>", True),
        (b"<a k='1' z", True),
        (b"<a k=z>", True),
        (b"<a\n\tz\n=\n'1'>", True),
        (b"<a><?z y?></a>", True),
        (b"<a><?z", True),
        (b"<a><!z></a>", True),
        (b"<p:z/>", True),
        (b"<\xc3\xa9/>", True),
    ],
)
def test_undeclared_names_are_found_before_parsing(text: bytes, found: bool) -> None:
    watch = NameWatch(NameLimits(max_names_of_holder=0))
    # The namespace that declared names need.
    watch.count_undeclared(b'<a xmlns:p="u>v"/>', DECLARED)
    assert has_room(watch, text, "one") != found
