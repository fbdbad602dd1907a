"""Documents are valid by namespaces and local names, whatever their prefixes are."""

from __future__ import annotations

import random
from io import BytesIO

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.dtd.dtd import Dtd
from tests.dtd.conftest import read_event, write_event
from tests.matching.conftest import load_dtd
from tests.matching.shape.oracle import CheckedCache

_HEAD = b"""
<!ENTITY % Mspaces.content ", a:root">
<!ENTITY % Mspaces.envelope
         PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">
%Mspaces.envelope;
"""
_DTD = (
    _HEAD
    + b"""
<!ELEMENT a:root (a:leg*, b:leg?, (leg | a:note)*)>
<!ATTLIST a:root xmlns:a CDATA #FIXED "urn:a" xmlns:b CDATA #FIXED "urn:b"
                 a:key CDATA #REQUIRED b:key CDATA "usual" key NMTOKEN #IMPLIED>
<!ELEMENT a:leg (#PCDATA)>
<!ATTLIST a:leg b:unit (kt | m) "kt" unit CDATA #IMPLIED>
<!ELEMENT b:leg (a:leg, b:leg?)>
<!ELEMENT leg (#PCDATA)>
<!ATTLIST leg a:unit CDATA #IMPLIED>
<!ELEMENT a:note ANY>
"""
)
_NAMESPACES = {"a": "urn:a", "b": "urn:b"}
_PREFIXES = ("a", "b", "c", "ns2", "ns4")
_NAMES = ("a:leg", "b:leg", "leg", "a:note", "b:note", "a:root", "c:leg")
_ATTRIBUTES = ("a:key", "b:key", "key", "a:unit", "b:unit", "unit")
_VALUES = ("kt", "m", "1", "")


@pytest.fixture(scope="module")
def dtd() -> Dtd:
    return load_dtd("made", "1.0", _DTD)


class _Writer:
    """Writes a random document twice: with the DTD's prefixes, and with others."""

    def __init__(self, seed: int, prefixes: int) -> None:
        self._structure, self._prefixes = random.Random(seed), random.Random(prefixes)

    def write(self) -> tuple[bytes, bytes]:
        return self._element("a:root", {}, 0)

    def _element(self, name: str, bound: dict[str, str], depth: int) -> tuple[bytes, bytes]:
        chance = self._structure
        attributes = {"a:key": "1"} if name == "a:root" and chance.random() < 0.9 else {}
        for attribute in _ATTRIBUTES:
            if chance.random() < 0.12:
                attributes[attribute] = chance.choice(_VALUES)
        text = chance.choice(["", "", "7"]) if name != "a:root" else ""
        below: list[str] = []
        if name == "a:root":
            below = ["a:leg"] * chance.randrange(3) + ["leg"] * chance.randrange(2)
        elif name == "b:leg":
            below = ["a:leg"]
        if chance.random() < 0.15 and depth < 3:
            below.append(chance.choice(_NAMES))
        declarations = self._bind({name, *attributes}, bound, depth)
        written = [self._rename(name, bound, is_attribute=False)]
        written += [f'xmlns{":" if p else ""}{p}="{uri}"' for p, uri in declarations.items()]
        plain = [name]
        if name == "a:root":
            plain += [f'xmlns:{p}="{uri}"' for p, uri in _NAMESPACES.items()]
        for attribute, value in attributes.items():
            plain.append(f'{attribute}="{value}"')
            written.append(f'{self._rename(attribute, bound, is_attribute=True)}="{value}"')
        children = [self._element(each, dict(bound), depth + 1) for each in below]
        return (
            _join(plain, text, [plain for plain, _ in children]),
            _join(written, text, [written for _, written in children]),
        )

    def _bind(self, names: set[str], bound: dict[str, str], depth: int) -> dict[str, str]:
        """Bind further prefixes at random, and those that are needed."""
        chance, made = self._prefixes, dict[str, str]()
        if chance.random() < 0.3:
            made[chance.choice(_PREFIXES)] = chance.choice(list(_NAMESPACES.values()))
        if bound.get("", "") and any(":" not in name for name in names):
            made[""] = ""
        elif chance.random() < 0.2 and not any(":" not in name for name in names):
            made[""] = chance.choice(list(_NAMESPACES.values()))
        bound.update(made)
        for name in names:
            uri = _NAMESPACES.get(name.partition(":")[0], "urn:c") if ":" in name else ""
            if uri and uri not in [each for p, each in bound.items() if p]:
                free = [p for p in _PREFIXES if p not in made and p not in bound.values()]
                prefix = chance.choice([p for p in free if bound.get(p) is None] or free)
                bound[prefix] = made[prefix] = uri
        # An attribute may have lost its prefix to another one.
        for name in names:
            if ":" in name:
                uri = _NAMESPACES.get(name.partition(":")[0], "urn:c")
                if not any(p and each == uri for p, each in bound.items()):
                    bound[f"x{depth}"] = made[f"x{depth}"] = uri
        return made

    def _rename(self, name: str, bound: dict[str, str], *, is_attribute: bool) -> str:
        prefix, colon, local = name.rpartition(":")
        if not colon:
            return name
        uri = _NAMESPACES.get(prefix, "urn:c")
        usable = sorted(p for p, u in bound.items() if u == uri and (p or not is_attribute))
        chosen = self._prefixes.choice(usable)
        return f"{chosen}:{local}" if chosen else local


def _join(tag: list[str], text: str, children: list[bytes]) -> bytes:
    return b"<%b>%b%b</%b>" % (
        *(" ".join(tag).encode(), text.encode(), b"".join(children), tag[0].encode()),
    )


def _is_valid_as_written(dtd: Dtd, payload: bytes) -> bool:
    root = read_event(write_event(payload, "made"))
    return bool(etree.DTD(BytesIO(dtd.text)).validate(root))


_SEEDS = st.integers(0, 2**32)


@settings(max_examples=300)
@given(_SEEDS, _SEEDS)
def test_prefixes_do_not_matter(dtd: Dtd, seed: int, prefixes: int) -> None:
    plain, written = _Writer(seed, prefixes).write()
    root = read_event(write_event(written, "made"))
    before = etree.tostring(root)
    # Declared nowhere, so invalid as written too; the oracle can not parse it.
    if b"c:leg" in plain:
        plain = plain.replace(b"c:leg", b"undeclared")
    expected = _is_valid_as_written(dtd, plain)
    found = dtd.check(root)
    assert (found is None) == expected, (plain, written, found)
    assert etree.tostring(root) == before
    if expected:
        other = read_event(write_event(plain, "made"))
        dtd.apply_defaults(root)
        dtd.apply_defaults(other)
        assert _expanded(root) == _expanded(other)


def _expanded(root: etree._Element) -> list[object]:
    return [(str(each.tag), sorted(map(str, each.items())), each.text) for each in root.iter("*")]


def test_random_documents_are_valid_and_invalid(dtd: Dtd) -> None:
    """Without this, the test above could compare refusals only."""
    valid = renamed = 0
    for seed in range(300):
        _, written = _Writer(seed, seed).write()
        root = read_event(write_event(written, "made"))
        if dtd.check(root) is None:
            valid += 1
            renamed += not dtd.is_valid_as_written(root)
    assert 60 < valid < 240
    assert renamed > 40


@settings(max_examples=60)
@given(_SEEDS, _SEEDS)
@example(0, 0)
def test_shapes_learn_each_binding(dtd: Dtd, seed: int, prefixes: int) -> None:
    checked = CheckedCache(dtd)
    for number in range(3):
        _, written = _Writer(seed, prefixes + number).write()
        for value in (b"7", b"888", b"99"):
            checked.meet(write_event(written.replace(b">7<", b">" + value + b"<"), "made"))
    assert checked.recognised <= checked.accepted


def test_a_renamed_document_is_recognised(dtd: Dtd) -> None:
    checked = CheckedCache(dtd)
    payload = b'<q:root xmlns:q="urn:a" q:key="1"><q:leg>%d</q:leg></q:root>'
    for number in range(4):
        checked.meet(write_event(payload % number, "made"))
    assert checked.recognised == 2


def test_two_prefixes_the_other_way_round(dtd: Dtd) -> None:
    payload = (
        b'<b:root xmlns:b="urn:a" xmlns:a="urn:b" b:key="1"><b:leg>1</b:leg>'
        b"<a:leg><b:leg>2</b:leg></a:leg></b:root>"
    )
    root = read_event(write_event(payload, "made"))
    assert dtd.check(root) is None
    dtd.apply_defaults(root)
    (leg,) = root.findall(".//{urn:b}leg/{urn:a}leg")
    assert leg.get("{urn:b}unit") == "kt"


def test_a_declared_prefix_with_another_namespace_is_not_valid(dtd: Dtd) -> None:
    payload = b'<q:root xmlns:q="urn:a" q:key="1"><a:leg xmlns:a="urn:c">1</a:leg></q:root>'
    problem = dtd.check(read_event(write_event(payload, "made")))
    assert problem is not None
    assert "leg" in problem.text


def test_an_error_has_the_line_of_the_document(dtd: Dtd) -> None:
    payload = b'<q:root xmlns:q="urn:a" q:key="1">\n<q:leg/>\n<q:bad/>\n</q:root>'
    problem = dtd.check(read_event(write_event(payload, "made")))
    assert problem is not None
    assert (problem.line, problem.text.split(" (")[0]) == (
        4,
        "No declaration for element q:bad in the namespace 'urn:a'",
    )


_UNBOUND = (
    _HEAD.replace(b"a:root", b"ns5:root")
    + b"<!ELEMENT ns5:root (ns5:leg)><!ELEMENT ns5:leg (#PCDATA)>"
    b"<!ATTLIST ns5:root xmlns:ns5 CDATA #IMPLIED xmlns:nas CDATA #IMPLIED>"
)


@pytest.mark.parametrize(
    ("payload", "is_cause"),
    [
        (b'<nas:root xmlns:nas="urn:n"><nas:leg>1</nas:leg></nas:root>', True),
        (b'<root xmlns="urn:n"><leg>1</leg></root>', True),
        (b'<nas:root xmlns:nas="urn:n"><nas:arm>1</nas:arm></nas:root>', False),
    ],
)
def test_a_refusal_says_that_prefixes_are_the_cause(payload: bytes, *, is_cause: bool) -> None:
    dtd = load_dtd("made", "1.0", _UNBOUND)
    problem = dtd.check(read_event(write_event(payload, "made")))
    assert problem is not None
    assert ("only its prefixes are not those of the DTD" in problem.text) is is_cause
    if is_cause:
        assert "the DTD has ns5:root" in problem.text
        assert "xmlns:ns5 as #FIXED 'urn:n'" in problem.text
