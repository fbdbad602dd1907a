"""Random documents that an XML Schema accepts, made from its components."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from lxml import etree
from xmlschema.validators import XsdAnyElement, XsdElement, XsdGroup

from broker.dtd.derivation.schema_content import declarations_of_element
from broker.dtd.derivation.schema_elements import XSD_NAMESPACE, XSI_NAMESPACE, allows

#: The first ones that a simple type accepts are used.
VALUES = (
    *("text", " a  b\n", "", "1", "-7", "2.5", "true", "2020-01-01T00:00:00-00:00", "2020-01-01"),
    *("2020-01-01T00:00:00", "PT5M", "en", "urn:x", "name", "ivo://a/b", "12:00:00"),
    *("+00:00", "10,10 5", "10,10 20,20 30,30 10,10", "aGk="),
)
MAX_DEPTH = 7


class DocumentMaker:
    def __init__(self, schema: Any, random: Random) -> None:
        self._maps = schema.maps
        self._random = random
        self._values: dict[Any, list[str]] = {}
        self._global_types = [
            each for name, each in self._maps.types.items() if XSD_NAMESPACE not in name
        ]

    def make(self, root: XsdElement) -> etree._Element:
        prefixes = self._random.sample(["ds", "fd", "cap", "q", "tns", "transit"], 3)
        uris = sorted({name[1:].partition("}")[0] for name in self._names() if name[0] == "{"})
        nsmap: Any = dict(zip(prefixes, uris, strict=False))
        # A default namespace would take in the names without namespace.
        nsmap["xsi"] = XSI_NAMESPACE
        document = etree.Element("document", None, nsmap)
        self._add_element(document, root, 0)
        made = document[0]
        made.tail = None
        return etree.fromstring(etree.tostring(made, encoding="UTF-8"))

    def _names(self) -> Iterator[str]:
        for name in (*self._maps.elements, *self._maps.attributes, *self._maps.types):
            if not any(own in name for own in ("www.w3.org/2001/", "www.w3.org/XML/")):
                yield name

    def _add_element(self, parent: etree._Element, element: XsdElement, depth: int) -> None:
        declarations = declarations_of_element(element)
        declaration = self._random.choice(declarations)
        made = etree.SubElement(parent, declaration.name)
        type_ = self._choose_type(made, declaration)
        for attribute in getattr(type_, "attributes", {}).values():
            self._add_attribute(made, attribute)
        if declaration.nillable and self._random.random() < 0.3:
            made.set(f"{{{XSI_NAMESPACE}}}nil", "true")
            return
        self._fill(made, declaration, type_, depth)

    def _choose_type(self, made: etree._Element, declaration: Any) -> Any:
        declared = declaration.type
        derived = [
            each
            for each in self._global_types
            if each is not declared
            and not getattr(each, "abstract", False)
            and each.is_derived(declared)
        ]
        needed = getattr(declared, "abstract", False)
        if not derived or not (needed or self._random.random() < 0.3):
            return declared
        chosen = self._random.choice(derived)
        uri, _, local = chosen.name[1:].partition("}")
        prefix = next(key for key, value in made.nsmap.items() if value == uri and key)
        made.set(f"{{{XSI_NAMESPACE}}}type", f"{prefix}:{local}")
        return chosen

    def _add_attribute(self, made: etree._Element, attribute: Any) -> None:
        if attribute.name is None:
            names = [name for name in self._maps.attributes if allows(attribute, name)]
            names = [name for name in names if "/2001/" not in name and "xml" not in name[-5:]]
            if names and self._random.random() < 0.3:
                self._add_attribute(made, self._maps.attributes[self._random.choice(names)])
        elif attribute.use == "required" or (
            attribute.use == "optional" and self._random.random() < 0.5
        ):
            value = attribute.fixed if attribute.fixed is not None else self._value(attribute.type)
            made.set(attribute.name, value)

    def _value(self, simple_type: Any) -> str:
        found = self._values.get(simple_type)
        if found is None:
            known = [*map(str, simple_type.enumeration or ()), *VALUES]
            found = [each for each in known if simple_type.is_valid(each)][:6]
            self._values[simple_type] = found
        return self._random.choice(found)

    def _fill(self, made: etree._Element, declaration: Any, type_: Any, depth: int) -> None:
        group = getattr(type_, "content", None)
        if not isinstance(group, XsdGroup):
            simple = type_ if group is None else group
            made.text = declaration.fixed if declaration.fixed is not None else self._value(simple)
            return
        self._add_group(made, group, depth + 1)
        nodes = [*made]
        if type_.mixed:
            for node in nodes:
                node.tail = self._random.choice(["text", None])
            made.text = self._random.choice(["text", " ", None])
        if self._random.random() < 0.2:
            made.append(etree.Comment(" "))

    def _add_group(self, made: etree._Element, group: XsdGroup, depth: int) -> None:
        for _ in range(self._number(group, depth)):
            particles = list(group)
            if group.model == "choice":
                particles = [self._random.choice(particles)] if particles else []
            elif group.model == "all":
                self._random.shuffle(particles)
            for particle in particles:
                if isinstance(particle, XsdGroup):
                    self._add_group(made, particle, depth)
                    continue
                for _ in range(self._number(particle, depth)):
                    if isinstance(particle, XsdAnyElement):
                        self._add_any(made, particle, depth)
                    else:
                        self._add_element(made, particle, depth)

    def _add_any(self, made: etree._Element, wildcard: XsdAnyElement, depth: int) -> None:
        elements = [
            each
            for name, each in self._maps.elements.items()
            if allows(wildcard, name) and "/2001/" not in name and not each.abstract
        ]
        if elements:
            self._add_element(made, self._random.choice(elements), depth)

    def _number(self, particle: Any, depth: int) -> int:
        least, most = particle.min_occurs, particle.max_occurs
        if depth >= MAX_DEPTH:
            return int(least)
        return self._random.randint(least, min(least + 2, most if most is not None else least + 2))
