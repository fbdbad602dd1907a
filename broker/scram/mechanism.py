"""Mechanisms of logins, as a Hello names them."""

from __future__ import annotations

from typing import Final

SCRAM: Final = "scram-sha-256"
CERTIFICATE: Final = "certificate"
TOKEN: Final = "token"


def format_credential(mechanism: str, data: bytes = b"") -> str:
    return f"{mechanism} {data.decode('ascii')}"


def parse_credential(text: str) -> tuple[str, bytes]:
    """Return mechanism and data; empty without a credential."""
    mechanism, _, data = text.partition(" ")
    return mechanism, data.encode("utf-8", "replace")
