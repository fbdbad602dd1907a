from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from broker.dtd.assembly import AssemblyLimits, assemble
from broker.dtd.catalogue import Catalogue
from broker.errors import BadDtd


def nothing(_public_id: str | None, _system_id: str) -> None:
    return None


def expand(text: str, **modules: str) -> str:
    files = {f"{name}.mod": body.encode() for name, body in modules.items()}
    return assemble(text.encode(), lambda public, system: files.get(system)).text.decode()


def refused(text: str | bytes, limits: AssemblyLimits | None = None, **modules: str) -> BadDtd:
    files = {f"{name}.mod": body.encode() for name, body in modules.items()}
    raw = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(BadDtd) as caught:
        assemble(raw, lambda public, system: files.get(system), limits)
    return caught.value


def test_a_driver_overrides_the_entity_of_its_module() -> None:
    driver = '<!ENTITY % c ", b"><!ENTITY % m SYSTEM "m.mod">%m;<!ELEMENT b EMPTY>'
    module = '<!ENTITY % c ""><!ELEMENT a (x %c;)>'
    assert expand(driver, m=module) == "<!ELEMENT a (x,b)>\n<!ELEMENT b EMPTY>\n"
    assert expand('<!ENTITY % m SYSTEM "m.mod">%m;', m=module) == "<!ELEMENT a (x)>\n"


def test_the_result_has_no_comment_no_entity_and_one_declaration_a_line() -> None:
    text = """<?xml version="1.0" encoding="utf-8"?>
    <!-- %undeclared; --><?pi %undeclared; ?>
    <!ELEMENT
        a  ( b
           | c ) * ><!ATTLIST a
        x CDATA
        "one
two">"""
    assert expand(text.replace(") *", ")*")) == (
        '<!ELEMENT a (b|c)*>\n<!ATTLIST a x CDATA "one two">\n'
    )


def test_an_occurrence_sign_that_stands_alone_is_not_glued_to_a_group() -> None:
    assert expand("<!ELEMENT a (b) *>") == "<!ELEMENT a (b) *>\n"


def test_an_entity_in_an_entitys_value_is_expanded_without_spaces() -> None:
    text = '<!ENTITY % p "fl"><!ENTITY % q "%p;ight"><!ELEMENT a (%q;)>'
    assert expand(text) == "<!ELEMENT a (flight)>\n"


def test_an_entity_elsewhere_is_padded_with_spaces() -> None:
    assert expand('<!ENTITY % p "fl"><!ELEMENT %p;ight (x)>') == "<!ELEMENT fl ight (x)>\n"


def test_character_references_in_a_value_become_characters() -> None:
    text = '<!ENTITY % p "&#60;!ELEMENT a &#x45;MPTY>">%p;'
    assert expand(text) == "<!ELEMENT a EMPTY>\n"


def test_a_reference_in_a_default_value_is_not_expanded() -> None:
    text = '<!ATTLIST a x CDATA "100%; %p; &amp; &#65;">'
    assert expand(text) == f"{text}\n"


def test_the_five_predefined_entities_may_be_declared_again() -> None:
    assert expand('<!ENTITY lt "&#38;#60;"><!ELEMENT a EMPTY>') == "<!ELEMENT a EMPTY>\n"


def test_libxml2_parses_original_and_result_alike(catalogue: Catalogue) -> None:
    for reference in catalogue.references():
        path = catalogue.public[reference.public_id]
        text = assemble(path.read_bytes(), catalogue.read).text
        by_libxml2 = etree.DTD(str(path))
        by_us = etree.DTD(BytesIO(text))

        def declarations(dtd: Any) -> list[Any]:
            return sorted(
                (
                    (element.prefix or "", element.name, element.type, repr(element.content)),
                    sorted(
                        (a.prefix or "", a.name, a.type, a.default, a.default_value or "")
                        for a in element.iterattributes()
                    ),
                )
                for element in dtd.iterelements()
            )

        # The first declaration of an attribute binds; lxml prints addresses of content models.
        strip = [str(entry).split(" at 0x")[0] for entry in declarations(by_us)]
        assert strip == [str(entry).split(" at 0x")[0] for entry in declarations(by_libxml2)]


def test_assembling_again_changes_nothing(catalogue: Catalogue) -> None:
    for reference in catalogue.references():
        text = catalogue.read(reference.public_id, "")
        assert text is not None
        once = assemble(text, catalogue.read).text
        assert assemble(once, nothing).text == once


def test_each_element_has_its_line_and_module() -> None:
    driver = b'<!ENTITY % m SYSTEM "m.mod">\n%m;\n<!ELEMENT b EMPTY>'
    module = b'<?xml version="1.0"\n encoding="UTF-8"?>\n<!ELEMENT a EMPTY>'
    assembled = assemble(driver, lambda public, system: module)
    assert assembled.element_locations == {"a": (3, "m.mod"), "b": (3, "")}


def test_an_external_entity_outside_the_catalogue_is_refused() -> None:
    for identifier in ('SYSTEM "file:///etc/passwd"', 'PUBLIC "p" "http://evil.example/x"'):
        error = refused(f"\n<!ENTITY % x {identifier}>\n%x;")
        assert "not in the catalogue" in error.text
        assert error.line == 3


def test_an_external_entity_that_is_never_used_is_never_asked_for() -> None:
    asked: list[str] = []
    text = b'<!ENTITY % x SYSTEM "file:///etc/passwd"><!ELEMENT a EMPTY>'

    def resolve(_public_id: str | None, system_id: str) -> None:
        asked.append(system_id)

    assert assemble(text, resolve).text == b"<!ELEMENT a EMPTY>\n"
    assert asked == []


def test_general_entities_are_refused_external_internal_and_unparsed() -> None:
    for declaration in ('x SYSTEM "file:///etc/passwd"', 'x "y"', 'x SYSTEM "p" NDATA gif'):
        error = refused(f"<!ELEMENT a EMPTY>\n<!ENTITY {declaration}>")
        assert "general entity 'x'" in error.text
        assert error.line == 2


def test_a_general_entity_in_a_default_value_is_refused() -> None:
    assert "predefined" in refused('<!ATTLIST a x CDATA "&secret;">').text
    assert "predefined" in refused('<!ATTLIST a x CDATA "a & b">').text


def laughs(levels: int, late: bool) -> str:
    sign = "&#37;" if late else "%"
    lines = ['<!ENTITY % l0 "<!ELEMENT a EMPTY>">' if late else '<!ENTITY % l0 "ha">']
    for level in range(1, levels):
        lines.append(f'<!ENTITY % l{level} "{f"{sign}l{level - 1};" * 10}">')
    return "\n".join([*lines, f"%l{levels - 1};"])


def test_a_billion_laughs_of_parameter_entities_are_refused() -> None:
    early = refused(laughs(10, late=False))
    assert "expand to more than" in early.text
    assert early.line > 1
    late = refused(laughs(10, late=True))
    # It repeats long before the limits.
    assert "declared twice" in late.text


def test_a_billion_laughs_of_harmless_declarations_meet_the_count_of_uses() -> None:
    text = laughs(10, late=True).replace("<!ELEMENT a EMPTY>", "")
    assert "uses of entities" in refused(text).text


def test_an_entity_that_contains_itself_is_refused() -> None:
    assert "contains itself" in refused('<!ENTITY % a "&#37;b;"><!ENTITY % b "&#37;a;">%a;').text
    assert (
        "contains itself"
        in refused('<!ENTITY % m SYSTEM "m.mod">%m;', m='<!ENTITY % m SYSTEM "m.mod"> %m;').text
    )


def test_entities_nested_too_deep_are_refused() -> None:
    lines = ['<!ENTITY % e0 "<!ELEMENT a EMPTY>">']
    lines += [f'<!ENTITY % e{level} "&#37;e{level - 1};">' for level in range(1, 40)]
    assert "nested deeper than 16" in refused("\n".join([*lines, "%e39;"])).text


def test_a_text_and_a_module_have_a_size_limit() -> None:
    limits = AssemblyLimits(max_text=100)
    assert "longer than 100 bytes" in refused(b" " * 101, limits).text
    error = refused('<!ENTITY % m SYSTEM "m.mod">%m;', limits, m=" " * 101)
    assert error.text == "m.mod is longer than 100 bytes"


def test_the_number_of_declarations_has_a_limit() -> None:
    limits = AssemblyLimits(max_declarations=3)
    error = refused("\n".join(f"<!ELEMENT e{n} EMPTY>" for n in range(4)), limits)
    assert (error.line, error.text) == (4, "more than 3 declarations")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<![INCLUDE[<!ELEMENT a EMPTY>]]>", "conditional"),
        ('<!ENTITY % yes "INCLUDE"><![%yes;[<!ELEMENT a EMPTY>]]>', "conditional"),
        ('<!NOTATION gif SYSTEM "viewer">', "notations"),
        ("%absent;", "not declared"),
        ("<!ELEMENT a (%absent;)>", "not declared"),
        ('<!ENTITY % e "EMPTY> <!ELEMENT b EMPTY">\n<!ELEMENT a %e;>', "can not stand within"),
        ("<!ENTITY % e \"'open\"><!ATTLIST a x CDATA %e;'>", "literal is not closed"),
        ('<!ENTITY % e "<!ELEMENT a ">%e; EMPTY>', "declaration is not closed"),
        ('<!ENTITY % e "<!-- ">%e; -->', "comment is not closed"),
        ('<!ENTITY %e; "x">', "not declared"),
        ('<!ENTITY % a "&#0;">', "character reference"),
        ('<!ENTITY % a "50% of">', "is not a reference"),
        ("<!ENTITY % a SYSTEM>", "is malformed"),
        ('<!ATTLIST a x CDATA"y">', "white space"),
        ('<!ATTLIST a x CDATA "y"z CDATA "y">', "white space"),
        ("<!DOCTYPE a [<!ELEMENT a EMPTY>]>", "can not stand"),
        ("<!DOCTYPE a>", "is not a DTD declaration"),
        ("<!ELEMENT a EMPTY", "not closed"),
        ("<!ELEMENT a EMPTY><!ELEMENT a ANY>", "declared twice"),
        ("<!-- open", "comment is not closed"),
        ("<?open", "processing instruction is not closed"),
        ("<html>", "no declaration starts here"),
        ("GIF89a", "no declaration starts here"),
        ("\x00", "illegal character"),
        (b"\xff\xfe<\x00", "not in UTF-8"),
        (b'<?xml version="1.0" encoding="UTF-16"?>', "only UTF-8"),
    ],
)
def test_an_unusable_dtd_is_refused_with_a_line(text: str | bytes, problem: str) -> None:
    error = refused(text)
    assert problem in error.text
    assert error.line >= 1


def test_a_line_counts_in_the_module_where_the_mistake_is() -> None:
    error = refused('\n\n<!ENTITY % m SYSTEM "m.mod">%m;', m="<!ELEMENT a EMPTY>\n<oops>")
    assert error.line == 2
    assert "(in m.mod)" in error.text


@given(st.text(alphabet="<!ELMNTAIYP%;\"'&#0x()|, -?*>abe[]\n", max_size=120))
def test_any_text_is_either_assembled_or_refused_as_bad_dtd(text: str) -> None:
    try:
        once = assemble(text.encode(), nothing).text
    except BadDtd:
        return
    assert assemble(once, nothing).text == once
    assert b"<!ENTITY" not in once
