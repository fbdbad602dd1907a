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
