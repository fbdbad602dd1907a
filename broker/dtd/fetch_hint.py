"""Hints of an event for fetching its DTD."""

from __future__ import annotations

import attrs


@attrs.frozen
class FetchHint:
    """Hints for finding an event's DTD (Mspaces M14)."""

    system_id: str = ""
    #: The pointer, or empty.

    link: object | None = attrs.field(default=None, eq=False)
    #: Link of its session.

    via: object | None = attrs.field(default=None, eq=False)
    #: Neighbour that passed the event on; None: published here.

    content_hash: str = ""
    #: SHA-256 of the text; empty: any.

    owner: str = ""
    #: Account or node whose share of the store is used.
