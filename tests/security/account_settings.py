"""Accounts of a node that is attacked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from broker.identity.secret import hash_secret

SECRET = "hush"
_hash = lru_cache(maxsize=8)(hash_secret)


def account_toml(name: str, **settings: Any) -> str:
    """Return the section of an account whose ClientIds begin with its name; lists stay lists."""
    values: Mapping[str, Any] = {"client_ids": [f"{name}*"], **settings}
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join([f"[accounts.{name}]", f'secret = "{_hash(SECRET)}"', *lines, ""])


#: For `measured_bystander`, `ask_status` and `connect`.
BYSTANDER: dict[str, Any] = {"account": "bystander", "secret": SECRET, "client_id": "bystander"}
ADMINISTRATOR: dict[str, Any] = {"account": "admin", "secret": SECRET, "client_id": "admin"}
BASE = account_toml("bystander", publish=["bystander.>"], subscribe=["bystander.>"]) + account_toml(
    "admin", publish=[">"], subscribe=[">"], administer=True
)


def identity_of(account: str, number: int = 0) -> dict[str, Any]:
    return {"account": account, "secret": SECRET, "client_id": f"{account}-{number}"}
