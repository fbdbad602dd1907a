"""Namespace prefixes that are bound in every query."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import Final

from broker.event.envelope import ENVELOPE_PREFIX, NAMESPACE, XML_NAMESPACE

#: The envelope's prefix, and `xml`, which XPath itself binds.
PREDEFINED_PREFIXES: Final[Mapping[str, str]] = {ENVELOPE_PREFIX: NAMESPACE, "xml": XML_NAMESPACE}
#: Key of a default namespace among the bindings of a query.
DEFAULT: Final = ""


def unused_prefix(wanted: str, bound: Collection[str]) -> str:
    """Return `wanted` or, if it is bound, the first of `wanted1`, `wanted2`, ... that is not."""
    candidates = itertools.chain((wanted,), (f"{wanted}{n}" for n in itertools.count(1)))
    return next(prefix for prefix in candidates if prefix not in bound)
