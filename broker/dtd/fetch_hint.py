from __future__ import annotations

import attrs


@attrs.frozen
class FetchHint:
    """Hints for finding an event's DTD (Mspaces M14)."""

    system_id: str = ""
    #: The pointer, or empty.

    link: object | None = attrs.field(default=None, eq=False)
    #: Of its session.

    via: object | None = attrs.field(default=None, eq=False)
    #: Neighbour that passed the event on; None: published here.

    content_hash: str = ""
    #: Of the text (SHA-256); empty: any.

    owner: str = ""
    #: Its share of the store is used.
