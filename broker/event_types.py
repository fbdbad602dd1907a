"""The event types of a node: where their DTDs are looked for."""

from __future__ import annotations

from typing import Any

from twisted.web.client import Agent

from broker.config import TypeSettings
from broker.content.schema.known import KnownTypes
from broker.dtd.cache import CacheLimits, DtdCache
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.interfaces import IDtdSource
from broker.dtd.pointer import AllowedPlace, PointerLimits, PointerSource
from broker.dtd.sources import CatalogueSource
from broker.errors import BrokerError, ConfigurationError


def make_dtds(
    settings: TypeSettings, reactor: Any, neighbours: IDtdSource
) -> tuple[DtdCache, KnownTypes]:
    """The cache, and what is known of the types in it.

    Looked through in this order: what comes with us, the folders of the settings, the node that
    sent the event, the place that the event points to. Raises `ConfigurationError` for a folder
    that is no catalogue.
    """
    shipped = Catalogue.load(shipped_folder())
    try:
        folders = [Catalogue.load(folder) for folder in settings.folders]
    except BrokerError as error:
        raise ConfigurationError(f"types.folders: {error}") from None
    sources: list[IDtdSource] = [
        *(CatalogueSource(folder) for folder in folders),
        neighbours,
        PointerSource(
            Agent(reactor, connectTimeout=PointerLimits().timeout),
            reactor,
            [AllowedPlace.parse(url) for url in settings.pointers],
        ),
    ]
    dtds = DtdCache(shipped, sources, CacheLimits(), reactor)
    return dtds, KnownTypes(dtds, shipped, folders)
