"""Simulated nodes share the shipped DTDs and their schemas, which are immutable.

When each node compiled its own, that took an eighth of the time of these tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

import pytest

from broker.dtd.assembly import AssemblyLimits, Resolver
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.dtd import Dtd
from broker.dtd.interfaces import IDtd
from broker.dtd.reference import DtdReference
from broker.matching.schema import known_types
from broker.matching.schema.schema import Schema

_load = Dtd.load
_shipped = Catalogue.load(shipped_folder())
_dtds: dict[tuple[DtdReference, AssemblyLimits | None], Dtd] = {}
_schemas: WeakKeyDictionary[IDtd, Schema] = WeakKeyDictionary()


def load(
    reference: DtdReference, text: bytes, resolve: Resolver, limits: AssemblyLimits | None = None
) -> Dtd:
    if reference not in _shipped or text != _shipped.read(reference.public_id, ""):
        return _load(reference, text, resolve, limits)
    key = reference, limits
    if key not in _dtds:
        _dtds[key] = _load(reference, text, _shipped.read, limits)
    return _dtds[key]


def make_schema(dtd: IDtd) -> Schema:
    found = _schemas.get(dtd)
    if found is None:
        found = _schemas[dtd] = Schema(dtd)
    return found


@pytest.fixture(scope="package", autouse=True)
def shared_dtds() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dtd, "load", load)
        patch.setattr(known_types, "Schema", make_schema)
        yield
