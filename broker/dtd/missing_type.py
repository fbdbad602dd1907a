"""Error text for a type without a DTD: what was asked, and how a user gets one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.dtd.reference import DtdReference

#: Newest known versions in the text.
_MAX_VERSIONS: Final = 5


def describe_missing_type(
    reference: DtdReference, known: Sequence[DtdReference], reasons: Sequence[str]
) -> str:
    """`known` are the type's known versions, `reasons` the answers of the sources asked."""
    versions = ", ".join(each.version for each in known[-_MAX_VERSIONS:])
    return (
        f"no DTD for {reference}"
        + (f"; known versions are {versions}" if versions else "")
        + "; register one with `xmlbroker dtd add` (`xmlbroker dtd infer` writes one from "
        "samples), or at the node set types.folders to a folder with it, or types.undescribed to "
        f'"accept" for events without one ({"; ".join(reasons) or "there is no source"})'
    )
