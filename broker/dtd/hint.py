"""Where an event says that its DTD is."""

from __future__ import annotations

import attrs


@attrs.frozen
class FetchHint:
    """What an event tells of where its DTD is (Mspaces M14)."""

    system_id: str = ""
    #: The system identifier in its DOCTYPE: the pointer. Empty: none.

    link: object | None = attrs.field(default=None, eq=False)
    #: The link by which it came, for a source that asks the neighbour there; None: no link.

    via: object | None = attrs.field(default=None, eq=False)
    #: The neighbour that passed the event on; None: it was published here.

    content_hash: str = ""
    #: SHA-256 that the text must have; empty: any text counts.

    owner: str = ""
    #: The account or node that the stored text counts for.
