"""Fixtures for the tests of schemas."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from broker.matching.schema.schema import Schema

ENVELOPE = (
    '<!ENTITY % Mspaces.content "{}">'
    '<!ENTITY % Mspaces.envelope PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" '
    '"mspaces-1.1.mod">%Mspaces.envelope;'
)


@pytest.fixture(scope="session")
def make_dtd() -> Callable[..., Dtd]:
    """Return a function that makes a DTD from declarations of the payload."""
    catalogue = Catalogue.load(shipped_folder())

    def make(declarations: str, version: str = "1.0", content: str = ", flight") -> Dtd:
        text = (ENVELOPE.format(content) + declarations).encode()
        return Dtd.load(DtdReference("flight", version), text, catalogue.read)

    return make


@pytest.fixture(scope="session")
def make_schema(make_dtd: Callable[..., Dtd]) -> Callable[..., Schema]:
    """Return a function that makes a schema from declarations of the payload."""
    return lambda *declarations, **how: Schema(make_dtd(*declarations, **how))
