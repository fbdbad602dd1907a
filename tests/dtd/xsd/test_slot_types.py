"""A check of a value accepts nothing that libxml2 refuses."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.dtd.xsd.bundle import SchemaBundle
from broker.dtd.xsd.slot_check import IsValid, SlotCheck, compile_check
from broker.dtd.xsd.slot_pattern import NotTranslatable, translate_pattern
from broker.dtd.xsd.slot_types import SlotTypes
from broker.dtd.xsd.table_process import SlotTables
from broker.matching.shape.document_template import SLOT_TEXT
from tests.dtd.xsd.schema_types import xsd

BUILTIN = (
    *("string", "normalizedString", "token", "language", "NMTOKEN", "Name", "NCName", "anyURI"),
    *("boolean", "decimal", "integer", "nonPositiveInteger", "negativeInteger", "float", "double"),
    *("nonNegativeInteger", "positiveInteger", "long", "int", "short", "byte", "unsignedLong"),
    *("unsignedInt", "unsignedShort", "unsignedByte", "dateTime", "date", "time"),
)
UNCHECKED = (
    *("duration", "gYear", "gMonthDay", "hexBinary", "base64Binary", "QName", "ID", "IDREF"),
    *("NMTOKENS", "ENTITY"),
)


def facet(base: str, *facets: tuple[str, object]) -> str:
    inner = "".join(f'<xs:{name} value="{value}"/>' for name, value in facets)
    return f'<xs:restriction base="{base}">{inner}</xs:restriction>'


#: Name of a type, and its definition; those of a restriction of another one come later.
RESTRICTED = {
    "short-text": facet("xs:string", ("minLength", 2), ("maxLength", 5)),
    "exact": facet("xs:token", ("length", 3)),
    "collapsed": facet("xs:string", ("whiteSpace", "collapse"), ("maxLength", 4)),
    "words": facet(
        "xs:string", ("enumeration", "up"), ("enumeration", " down "), ("enumeration", "")
    ),
    "tokens": facet("xs:token", ("enumeration", "a  b"), ("enumeration", " c ")),
    "code": facet("xs:string", ("pattern", "[A-Z]{2,3}"), ("pattern", r"\d+(\.\d)?x")),
    "codes": facet("code", ("pattern", "[A-M]*"), ("minLength", 3)),
    "altitude": facet("xs:int", ("minInclusive", -100), ("maxExclusive", 601)),
    "low": facet("altitude", ("maxInclusive", 99)),
    "digits": facet("xs:decimal", ("totalDigits", 4), ("fractionDigits", 2)),
    "latitude": facet("xs:decimal", ("minInclusive", "-90"), ("maxInclusive", "90.0")),
    "ratio": facet("xs:double", ("minExclusive", 0), ("maxInclusive", "1.5")),
    "near": facet("xs:float", ("minInclusive", "0.1"), ("maxExclusive", "0.3")),
    "flag": facet("xs:boolean", ("pattern", "true|false")),
    "sent": facet("xs:dateTime", ("pattern", r"\d\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\d[-,+]\d\d:\d\d")),
    "numbers": facet(
        "xs:integer", ("enumeration", "1"), ("enumeration", "+20"), ("enumeration", " 3")
    ),
    "link": facet("xs:anyURI", ("maxLength", 20)),
    "nothing": facet("xs:int", ("minInclusive", 5), ("maxInclusive", 6), ("pattern", "[1-4]")),
}
UNCHECKED_RESTRICTED = {
    "later": facet("xs:date", ("minInclusive", "2020-01-01")),
    "accented": facet("xs:string", ("pattern", "[é]+")),
    "property": facet("xs:string", ("pattern", r"\p{L}+")),
    "subtracted": facet("xs:string", ("pattern", "[a-z-[aeiou]]+")),
    "items": '<xs:list itemType="xs:int"/>',
    "either": '<xs:union memberTypes="xs:int code"/>',
    "scientific": facet("xs:double", ("maxInclusive", "1e3")),
}
TYPES = {
    **{name: f"xs:{name}" for name in (*BUILTIN, *UNCHECKED)},
    **{f"r-{name}": name for name in (*RESTRICTED, *UNCHECKED_RESTRICTED)},
}
BODY = "".join(
    [
        '<xs:notation name="n" public="p"/>',
        *(
            f'<xs:simpleType name="{name}">{text}</xs:simpleType>'
            for name, text in {**RESTRICTED, **UNCHECKED_RESTRICTED}.items()
        ),
        *(f'<xs:element name="{name}" type="{type_}"/>' for name, type_ in TYPES.items()),
    ]
)


def table_of(*files: tuple[str, bytes]) -> SlotTypes:
    tables, packed = SlotTables(), SchemaBundle(files).pack()
    while (types := tables.get("", packed)) is None:
        tables.wait()
    return types


@pytest.fixture(scope="module")
def types() -> SlotTypes:
    return table_of(("main.xsd", xsd(BODY)))


@pytest.fixture(scope="module")
def schema() -> etree.XMLSchema:
    return etree.XMLSchema(etree.fromstring(xsd(BODY)))


def check_of(types: SlotTypes, name: str) -> IsValid | None:
    check = types.declarations[types.roots[name]].text
    return None if check is None else compile_check(check)


def is_valid(schema: etree.XMLSchema, name: str, value: str) -> bool:
    element = etree.Element(name)
    element.text = value
    return bool(schema.validate(element))


NUMBERS = (
    *("0", "-0", "+0", "00", "1", "-1", "7", "99", "100", "-100", "-101", "600", "601", "127"),
    *("128", "-128", "-129", "255", "256", "32767", "32768", "65535", "65536", "2147483647"),
    *("2147483648", "-2147483649", "4294967296", "999999999999999999", "9223372036854775807"),
    *("0.0", "-0.0", "1.5", "1.50", "1.500001", "-90", "90", "90.000000001", "-90.5", "0.10"),
    *("0.1", "0.30", "0.299999999", "0.09999999", "0.2", "0.0000001", "123.4", "12.345", "1234.5"),
    *("1e3", "INF", "NaN", "-INF", ".5", "5.", "1_0", "0x1", " 1", "1 ", "٣", "-", "", "--1"),
)
TEXTS = (
    *("a", "ab", "abc", "abcd", "abcdef", "  ", " a", "a  b", "a b", "a\nb", "a\tb", "é", "éé"),
    *("up", "down", " down ", "", "c", " c ", "AB", "ABC", "MMM", "ABCD", "AZ", "1x", "1.5x"),
    *("12.5xx", "en", "en-GB", "en_GB", "x-verylongtag1", "true", "TRUE", "1:2", "_x", "-x", ":"),
    *("http://a", "https://a.b:80/c/d?e=f", "http://", "http://a b", "http://a/%zz", "urn:x"),
    *("http://a:99999/", "http://-", "http://a..b//c", "https://1/?", "http://a?/=", "a" * 400),
)
MOMENTS = tuple(
    f"{year}-{month}-{day}{time}{zone}"
    for year, month, day, time, zone in product(
        ("2024", "1000", "0000", "-2024", "12024"),
        ("00", "01", "02", "04", "12", "13"),
        ("00", "01", "28", "29", "30", "31", "32"),
        ("", "T00:00:00", "T23:59:59.123", "T24:00:00", "T12:60:00", "T12:00:60", "T12:00"),
        ("", "Z", "+13:59", "-14:00", "+14:01", "-00:00", "+1:00"),
    )
)
CLOCKS = tuple(moment.partition("T")[2] for moment in MOMENTS if moment.startswith("2024-01-01T"))


@pytest.mark.parametrize("name", TYPES)
def test_values_that_a_check_accepts_are_valid(
    types: SlotTypes, schema: etree.XMLSchema, name: str
) -> None:
    check = check_of(types, name)
    if name in UNCHECKED or name.removeprefix("r-") in UNCHECKED_RESTRICTED:
        assert check is None
        return
    assert check is not None
    chance, values = random.Random(1), [*NUMBERS, *TEXTS, *CLOCKS]
    values += MOMENTS if "date" in name or "sent" in name else ()
    for _ in range(300):
        value = chance.choice(values[:130])
        at = chance.randrange(len(value) + 1)
        values.append(value[:at] + chance.choice("0159.-+eE aAx\n%&:\\") + value[at + 1 :])
    accepted = [value for value in values if check(value.encode())]
    refused = [value for value in accepted if not is_valid(schema, name, value)]
    assert refused == []
    assert accepted or name in ("r-nothing", "r-sent")
    if name == "r-sent":
        assert check(b"2003-06-11T20:56:00-07:00")


def _classes() -> Iterator[str]:
    for sign in map(chr, range(0x20, 0x7F)):
        yield f"\\{sign}"
        yield sign
        yield f"[{sign}]"
        yield f"[^{sign}]"
        yield f"[a{sign}]"
        yield f"[{sign}-z]"
        yield f"[!-{sign}]"
        yield f"[^\\{sign}a]"
        yield f"[a\\{sign}]"
    yield from ("[+--]", "[--a]", "[a-c-e]", "[-a]", "[a-]", "[^-a]", "[^a-]", "[a^]", "[]a]", "[]")


def test_classes_of_characters_are_those_of_libxml2() -> None:
    translated = 0
    for pattern in _classes():
        try:
            matches = compile_pattern(pattern)
        except NotTranslatable:
            continue
        validate = libxml2_pattern(pattern)
        translated += 1
        for sign in (b"\t", b"\n", *(bytes([each]) for each in range(0x20, 0x7F))):
            assert not matches(sign) or validate(sign.decode()), (pattern, sign)
    assert translated > 500


ATOMS = st.sampled_from(["a", "b", ".", "\\d", "[ab]", "[^a]", "\\.", "-", "[0-9a-]"])
QUANTIFIERS = st.sampled_from(["", "", "", "?", "*", "+", "{2}", "{1,3}", "{2,}", "{0,2}"])
PATTERNS = st.recursive(
    st.tuples(ATOMS, QUANTIFIERS).map("".join),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.tuples(st.lists(inner, min_size=1, max_size=3).map("|".join), QUANTIFIERS).map(
            lambda pair: f"({pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


def libxml2_pattern(pattern: str) -> Callable[[str], bool]:
    body = f'<xs:element name="e"><xs:simpleType>{facet("xs:string", ("pattern", "@"))}'
    root = etree.fromstring(xsd(f"{body}</xs:simpleType></xs:element>"))
    for each in root.iter("{*}pattern"):
        each.set("value", pattern)
    schema = etree.XMLSchema(root)
    return lambda value: is_valid(schema, "e", value)


def compile_pattern(pattern: str) -> IsValid:
    return compile_check(SlotCheck(((translate_pattern(pattern),),)))


@settings(max_examples=200)
@given(PATTERNS, st.lists(st.text("ab01.-", max_size=8), min_size=20, max_size=20))
def test_texts_that_a_translated_pattern_matches_are_valid(pattern: str, values: list[str]) -> None:
    try:
        matches = compile_pattern(pattern)
    except NotTranslatable:
        return
    validate = libxml2_pattern(pattern)
    for value in values:
        assert not matches(value.encode()) or validate(value), (pattern, value)


@pytest.mark.parametrize("pattern", ["[^x]*x", "(a(b|c*))*", "(ab?)+c", "a{0,10000}b", "(a|b)*"])
def test_translated_patterns_take_linear_time(pattern: str) -> None:
    matches = compile_pattern(pattern)
    assert not matches(b"a" * 200_000 + b"d")


@pytest.mark.parametrize(
    "pattern",
    [
        "(a{2}){3}",
        "(a?)*",
        "(a|b*){2}",
        "[ab]{10001}",
        "(" * 9 + "a" + ")" * 9,
        "a" * 1_001,
        "a{2,1}",
        "a{99999}",
    ],
)
def test_patterns_that_may_need_a_second_try_are_not_translated(pattern: str) -> None:
    with pytest.raises(NotTranslatable):
        translate_pattern(pattern)


def test_every_text_of_a_free_type_is_valid(types: SlotTypes, schema: etree.XMLSchema) -> None:
    for name in ("string", "normalizedString", "token"):
        for value in (*TEXTS, "\x7f\u0085\u2028 \ufffd"):
            if SLOT_TEXT.fullmatch(value.encode()):
                assert is_valid(schema, name, value)


def test_a_process_that_fails_leaves_a_schema_without_checks() -> None:
    tables = SlotTables()
    packed = [SchemaBundle(((f"{n}.xsd", xsd(BODY)),)).pack() for n in range(3)]
    assert tables.get("a", packed[0]) is None and tables.get("b", packed[1]) is None
    # Only one process runs at a time.
    process: Any = tables._process
    process.kill()
    process.wait()
    assert tables.get("a", packed[0]) == SlotTypes()
    assert tables.get("b", packed[1]) is None
    tables.wait()
    found = tables.get("b", packed[1])
    assert found is not None and found.roots.keys() == TYPES.keys()
    assert tables.get("a", packed[0]) == SlotTypes()
    assert tables.get("c", packed[2]) is None
    tables.close()
    assert tables.get("c", packed[2]) is None
    tables.close()


XLINK = "http://www.w3.org/1999/xlink"


def test_files_of_the_schema_count_and_not_those_of_the_library() -> None:
    # The library has an own file for XLink, in which any address is valid.
    link = xsd('<xs:attribute name="href" type="xs:int"/>', f' targetNamespace="{XLINK}"')
    chameleon = xsd('<xs:simpleType name="small"><xs:restriction base="xs:byte"/></xs:simpleType>')
    main = xsd(
        f'<xs:import namespace="{XLINK}" schemaLocation="http://www.w3.org/1999/xlink.xsd"/>'
        '<xs:include schemaLocation="parts/small.xsd"/>'
        '<xs:element name="e"><xs:complexType><xs:sequence><xs:element name="v" type="m:small"/>'
        '</xs:sequence><xs:attribute ref="x:href"/></xs:complexType></xs:element>',
        f' targetNamespace="urn:m" xmlns:m="urn:m" xmlns:x="{XLINK}"',
    )
    types = table_of(("main.xsd", main), ("xlink.xsd", link), ("parts/small.xsd", chameleon))
    slots = types.declarations[types.roots["{urn:m}e"]]
    href = compile_check(slots.attributes[f"{{{XLINK}}}href"])
    assert href(b"12") and not href(b"http://a")
    text = types.declarations[slots.children["{urn:m}v"]].text
    assert text is not None
    small = compile_check(text)
    assert small(b"127") and not small(b"128")
