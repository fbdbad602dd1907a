"""Namespace prefixes that are bound in every query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.event.envelope import NAMESPACE

ENVELOPE_PREFIX: Final = "Mspaces"
XML_NAMESPACE: Final = "http://www.w3.org/XML/1998/namespace"
#: The envelope's prefix, and `xml`, which XPath itself binds.
PREDEFINED_PREFIXES: Final[Mapping[str, str]] = {ENVELOPE_PREFIX: NAMESPACE, "xml": XML_NAMESPACE}
