"""The limit on names, which libxml2 never frees (T27)."""

from __future__ import annotations

import pytest

from broker.matching.name_watch import NameWatch

DECLARED = frozenset({"a", "b", "p:c", "k", "xmlns:p"})


def test_distinct_undeclared_names_are_counted_once() -> None:
    watch = NameWatch()
    for _ in range(3):
        watch.count_undeclared(b"<a k='1' z='2'><b/><new>&ent;</new><?pi x?></a>", DECLARED)
    assert watch.count == 4


def test_watch_guards_after_too_many_names() -> None:
    watch = NameWatch(max_names=10)
    watch.count_undeclared(b"".join(b"<n%d>" % i for i in range(9)), DECLARED)
    assert not watch.is_guarding
    watch.count_undeclared(b"<other>", DECLARED)
    assert watch.is_guarding


def test_watch_guards_after_too_many_bytes_of_names() -> None:
    watch = NameWatch(max_bytes=1000)
    watch.count_undeclared(b"<%s>" % (b"x" * 999), DECLARED)
    assert not watch.is_guarding
    watch.count_undeclared(b"<%s>" % (b"y" * 10), DECLARED)
    assert watch.is_guarding


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"<a><b k='x'>text</b><p:c xmlns:p=\"u>v\"/></a>", None),
        (b"<a>&amp;&#65;&#x41; x = y 'z' \"</a>", None),
        (b"<a><!-- <z> --><![CDATA[<z> &z;]]></a>", None),
        (b'<a k = \'z="1" <\'\n k="\'"/>', None),
        (b"<z/>", "z"),
        (b"<a></z>", "z"),
        (b"<a z='1'/>", "z"),
        (b"<a k='1'z='1'/>", "z"),
        (b"<a z/>", "z"),
        (b"<a k='1' z", "z"),
        (b"<a k=z>", "z"),
        (b"<a\n\tz\n=\n'1'>", "z"),
        (b"<a>&z;</a>", "&z;"),
        (b"<a>&z</a>", "&z;"),
        (b"<a k='&z;'/>", "&z;"),
        (b"<a><?z y?></a>", "<?z?>"),
        (b"<a><?z", "<?z?>"),
        (b"<a><!z></a>", "!z"),
        (b"< a>", ""),
        (b"<p:z/>", "p:z"),
        (b"<\xc3\xa9/>", "é"),
    ],
)
def test_undeclared_names_are_found_before_parsing(text: bytes, found: str | None) -> None:
    assert NameWatch().find_undeclared(text, DECLARED) == found
