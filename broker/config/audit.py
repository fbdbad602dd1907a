"""Settings of the audit log."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs

from broker.config import value_kind
from broker.config.setting import setting

KIB: Final = 2**10
MIB: Final = 2**20
TIB: Final = 2**40


@attrs.frozen
class AuditSettings:
    """The audit log: logins, changes of durable subscriptions, administration, refused rights."""

    file: Path | None = setting(
        value_kind.OPTIONAL_FILE,
        None,
        "File of JSON lines; off when empty.",
    )
    max_bytes: int = setting(
        value_kind.size(64 * KIB, TIB),
        16 * MIB,
        "Size of a file at which it is renamed to FILE.1.",
    )
    max_files: int = setting(
        value_kind.count(1, 1000), 8, "Files with that name, beyond which the oldest is removed."
    )
