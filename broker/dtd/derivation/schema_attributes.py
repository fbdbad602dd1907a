"""Attributes of elements of an XML Schema, joined over all types of a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from xmlschema.validators import XsdAnyAttribute, XsdAttribute, XsdType

from broker.dtd.derivation.driver import DerivedAttribute
from broker.dtd.derivation.prefix_table import split_name
from broker.dtd.derivation.schema_elements import (
    XSD_NAMESPACE,
    XSI_NAMESPACE,
    SchemaElement,
    allows,
)

_STRING: Final = f"{{{XSD_NAMESPACE}}}string"


def join_attributes(
    element: SchemaElement, global_names: Iterable[str], room: int
) -> tuple[DerivedAttribute, ...]:
    """Return the attributes, with those of `global_names` that a wildcard accepts.

    The latter are left out if there are more than `room` attributes.
    """
    variants = [attributes_of(type_) for type_ in element.types]
    names = sorted({name for variant in variants for name in variant})
    joined = [_join_attribute(name, [each.get(name) for each in variants]) for name in names]
    wildcards = [attribute_wildcard(type_) for type_ in element.types]
    extra = [
        DerivedAttribute(name)
        for name in sorted(global_names)
        if name not in names
        and split_name(name)[0] not in (XSD_NAMESPACE, XSI_NAMESPACE)
        and any(wildcard is not None and allows(wildcard, name) for wildcard in wildcards)
    ]
    return (*joined, *(extra if len(joined) + len(extra) <= room else ()))


def attributes_of(type_: XsdType) -> dict[str, XsdAttribute]:
    return {
        str(name): attribute
        for name, attribute in _attribute_group(type_).items()
        if isinstance(attribute, XsdAttribute) and attribute.use != "prohibited"
    }


def attribute_wildcard(type_: XsdType) -> XsdAnyAttribute | None:
    found = _attribute_group(type_).get(None)
    return found if isinstance(found, XsdAnyAttribute) else None


def _attribute_group(type_: XsdType) -> Mapping[str | None, XsdAttribute | XsdAnyAttribute]:
    return getattr(type_, "attributes", {})


def _join_attribute(name: str, variants: list[XsdAttribute | None]) -> DerivedAttribute:
    """A value is supplied only if all variants have it."""
    if any(each is None for each in variants):
        return DerivedAttribute(name)
    found = [each for each in variants if each is not None]
    is_required = all(each.use == "required" for each in found)
    values = {each.fixed if each.fixed is not None else each.default for each in found}
    (value,) = values if len(values) == 1 else (None,)
    # Types other than strings have several texts for one value. libxml2 finds no fixed value with
    # such characters equal to that of a document.
    is_fixed = all(each.fixed is not None and each.type.name == _STRING for each in found)
    is_fixed = is_fixed and not set(value or "") & set("&<>")
    if value is not None and (is_fixed or not is_required):
        return DerivedAttribute(name, default=value, is_fixed=is_fixed)
    return DerivedAttribute(name, is_required=is_required)
