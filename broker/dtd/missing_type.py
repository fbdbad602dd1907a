"""Error text for a type without a DTD: what was asked, and how a user gets one."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from broker.dtd.reference import DtdReference

#: Newest known versions in the text.
_MAX_VERSIONS: Final = 5
#: Likeness of a name that may be meant: one letter is wrong, or two are swapped.
_LIKE: Final = 0.8


def describe_missing_type(
    reference: DtdReference, known: Sequence[DtdReference], reasons: Sequence[str]
) -> str:
    """`known` are all known types, sorted; `reasons` the answers of the sources asked."""
    of_type = [each.version for each in known if each.type == reference.type and not each.variant]
    versions = ", ".join(of_type[-_MAX_VERSIONS:])
    close = get_close_matches(reference.type, sorted({each.type for each in known}), 1, _LIKE)
    return (
        f"no DTD for {reference}"
        + (f"; known versions are {versions}" if versions else "")
        + (f", did you mean the type {close[0]}?" if close and not versions else "")
        + "; register one with `xmlbroker dtd add` (`xmlbroker dtd infer` writes one from "
        "samples), or at the node set types.folders to a folder with it, or types.undescribed to "
        f'"accept" for events without one ({"; ".join(reasons) or "there is no source"})'
    )
