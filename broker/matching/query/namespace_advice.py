"""Advice for a name without prefix whose elements are in a namespace."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from broker.matching.query.namespaces import PREDEFINED_PREFIXES, unused_prefix

#: Characters of a URI in advice.
MAX_URI = 200
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_VERSION = re.compile(r"[vV][0-9]+|[xX][mM][lL].*")
_MAX_PREFIX = 12


def advise_binding(name: str, uri: str, bindings: Mapping[str, str]) -> str:
    """Return how a query with these bindings finds elements of that name and namespace."""
    if len(uri) > MAX_URI:
        return "bind that namespace with --namespace"
    for prefix, bound in bindings.items():
        if bound == uri:
            return f"write {prefix}:{name}"
    prefix = unused_prefix(_suggest_prefix(uri), {*bindings, *PREDEFINED_PREFIXES})
    option = shlex.quote(f"{prefix}={uri}")
    return (
        f"use --namespace {option} and {prefix}:{name}, "
        f"or --namespace {shlex.quote(uri)} for all names without prefix"
    )


def _suggest_prefix(uri: str) -> str:
    words = [word for word in _WORD.findall(uri) if not _VERSION.fullmatch(word)]
    return words[-1][:_MAX_PREFIX].lower() if words else "n"
