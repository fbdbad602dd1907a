"""What a newer version of a type changes (M16, N9): label paths that came and went."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import attrs

from broker.dtd.interfaces import IDtd
from broker.matching.schema.cause import format_list
from broker.matching.schema.schema import LabelInfo, Schema


@attrs.frozen
class SchemaDifference:
    """Two versions of a type, and what lies between them."""

    old: Schema
    new: Schema
    added: frozenset[str]
    #: Labels that only the new version has.

    removed: frozenset[str]
    #: Labels that only the old version has.

    changed: Mapping[str, str]
    #: Attributes of both whose listed values or default differ, and how, in words.


def compare_versions(old: IDtd, new: IDtd) -> SchemaDifference:
    """What lies between two versions of a type.

    Of a type that is too large to be looked into, nothing: `came`, `went`, `changed` are empty.
    """
    schemas = Schema(old), Schema(new)
    if schemas[0].shared != schemas[1].shared:
        # Labels can be compared only where they are made alike.
        schemas = Schema(old, shared=True), Schema(new, shared=True)
    one, other = schemas
    if not (one.scopes and other.scopes):
        return SchemaDifference(one, other, frozenset(), frozenset(), {})
    before, after = one.labels(), other.labels()
    return SchemaDifference(
        one,
        other,
        frozenset(after.keys() - before.keys()),
        frozenset(before.keys() - after.keys()),
        {
            label: _describe_change(before[label], after[label])
            for label in before.keys() & after.keys()
            if before[label] != after[label]
        },
    )


def sort_labels(labels: Iterable[str]) -> list[str]:
    """Labels as they are told: an element before what is in it, short paths first."""
    return sorted(labels, key=lambda label: (label.count("/"), label))


def _describe_change(before: LabelInfo, after: LabelInfo) -> str:
    parts = []
    if before.values != after.values:
        if after.values is None:
            parts.append("may be any text")
        elif before.values is None:
            parts.append(f"is only {format_list(after.values)}")
        else:
            parts += _format_changes("came", after.values - before.values)
            parts += _format_changes("went", before.values - after.values)
    if before.default != after.default:
        parts.append(f"default {_default(before)} became {_default(after)}")
    return ", ".join(parts)


def _format_changes(word: str, values: Collection[str]) -> list[str]:
    return [f"{format_list(values, last='and')} {word}"] if values else []


def _default(label: LabelInfo) -> str:
    return "none" if label.default is None else repr(label.default)
