"""Inference of an event type's DTD from statistics of sample documents.

The DTD accepts all samples. A child or an attribute is required if all elements of a name have it,
and they are at least `REQUIRED_FROM`.
"""

from __future__ import annotations

from typing import Final

from broker.dtd.derivation.chain import infer_chain
from broker.dtd.derivation.child_sequences import MAX_CHILDREN, ChildSequences
from broker.dtd.derivation.driver import (
    Derivation,
    DerivedAttribute,
    DerivedElement,
    Model,
    any_model,
    children_models,
    empty_model,
    mixed_model,
    text_model,
)
from broker.dtd.derivation.prefix_table import PrefixTable
from broker.dtd.derivation.sample_statistics import ElementStatistics, SampleStatistics
from broker.dtd.reference import DtdReference
from broker.errors import BadDtd

REQUIRED_FROM: Final = 10
#: Names of a chain. Each may follow each earlier one, and a node bounds these pairs.
_MAX_CHAIN: Final = 256


def infer_dtd(statistics: SampleStatistics, reference: DtdReference) -> Derivation:
    """Raises `BadDtd` without samples."""
    if not statistics.documents:
        raise BadDtd("there are no samples to infer a DTD from")
    table = statistics.prefixes.choose(statistics.roots)
    return Derivation(
        reference=reference,
        roots=tuple(sorted(statistics.roots)),
        elements=tuple(
            _derive_element(name, each, table, is_root=name in statistics.roots)
            for name, each in statistics.elements.items()
        ),
        table=table,
        head=(
            f"Event type {reference}, inferred from {counted(statistics.documents, 'sample')}. "
            f"A child or an attribute is required if all of {REQUIRED_FROM} or more elements "
            "have it. Names, orders and texts that no sample has are refused. Each further sample "
            "may show that they are possible, or that a part is optional.",
        ),
    )


def _derive_element(
    name: str, statistics: ElementStatistics, table: PrefixTable, *, is_root: bool
) -> DerivedElement:
    models, content_note = _choose_models(statistics, table)
    is_evidence_strong = statistics.count >= REQUIRED_FROM
    attributes = tuple(
        DerivedAttribute(each, is_required=is_evidence_strong and found.count == statistics.count)
        for each, found in sorted(statistics.attributes.items())
    )
    bindings: dict[str, str | None] = dict(table.bindings) if is_root else {}
    for prefix, uris in statistics.bindings.items():
        if prefix not in bindings:
            agreed = len(uris) == 1 and table.bindings.get(prefix) in uris
            bindings[prefix] = next(iter(uris)) if agreed else None
    notes = [
        counted(statistics.count, "occurrence")
        + ("" if is_evidence_strong else ", too few to require anything"),
        content_note,
        *_describe_attributes(statistics, table),
    ]
    return DerivedElement(name, models, attributes, bindings, "; ".join(filter(None, notes)))


def _choose_models(
    statistics: ElementStatistics, table: PrefixTable
) -> tuple[tuple[Model, ...], str]:
    children = statistics.children
    count = statistics.count
    if children.is_overfull:
        return (any_model,), f"any content: it has more than {MAX_CHILDREN:,} distinct children"
    if not children.names:
        if not statistics.is_always_empty:
            text = f"text in {_share(statistics.with_text, count)}"
            return (text_model,), text if statistics.with_text else "blank text only"
        if count >= REQUIRED_FROM:
            return (empty_model,), "always empty: text is refused"
        return (text_model,), "always empty, but text is accepted"
    if statistics.with_text:
        note = f"text between elements in {_share(statistics.with_text, count)}"
        return (mixed_model(children.names), any_model), note
    if len(children.names) > _MAX_CHAIN:
        models = children_models([], children.names)
        return models, f"{len(children.names):,} distinct children: any order accepted"
    chain = infer_chain(children, is_evidence_strong=count >= REQUIRED_FROM)
    return children_models([chain], children.names), _describe_children(children, table)


def _describe_children(children: ChildSequences, table: PrefixTable) -> str:
    """Return the share of each child that some elements lack, and the groups of several."""
    lacking = [
        f"{table.qualify(name)} in {_share(present, children.count)}"
        for name, present in zip(children.names, children.present, strict=True)
        if present < children.count
    ]
    always = len(children.names) - len(lacking)
    notes = [f"{counted(always, 'child', 'children')} in all"] if always else []
    return ", ".join(notes + lacking)


def _describe_attributes(statistics: ElementStatistics, table: PrefixTable) -> list[str]:
    notes = []
    for name, found in sorted(statistics.attributes.items()):
        share = _share(found.count, statistics.count)
        values = ""
        # Few values of many elements may be an enumeration.
        if found.values and found.count >= max(REQUIRED_FROM, 3 * len(found.values)):
            values = f" (so far only {', '.join(map(repr, sorted(found.values)))})"
        notes.append(f"@{table.qualify_attribute(name)} in {share}{values}")
    return notes


def _share(part: int, whole: int) -> str:
    return "all" if part == whole else f"{part:,} of {whole:,}"


def counted(count: int, noun: str, plural: str = "") -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
