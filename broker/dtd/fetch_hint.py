"""Hints of an event for fetching its DTD."""

from __future__ import annotations

import attrs


@attrs.frozen
class FetchHint:
    """Hints for finding an event's DTD (Mspaces M14)."""

    system_id: str = ""
    #: System identifier of its DOCTYPE, the pointer; empty: none.

    link: object | None = attrs.field(default=None, eq=False)
    #: Link of its session, for a source that asks the neighbour; None: no link.

    via: object | None = attrs.field(default=None, eq=False)
    #: Neighbour that passed the event on; None: it was published here.

    content_hash: str = ""
    #: SHA-256 that the text must have; empty: any.

    owner: str = ""
    #: Account or node whose share of the store the text uses.
