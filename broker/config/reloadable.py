"""Keys of the configuration that a running node applies when it reloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from broker.config.identity import AccountSettings
from broker.config.setting import settings_of
from broker.config.settings import SECTIONS, Settings

#: By table. Other keys need a restart.
RELOADABLE: Final[Mapping[str, frozenset[str]]] = {
    "limits": frozenset(
        {
            *("max_sessions", "max_sessions_per_account", "max_clients"),
            *("max_handshakes", "max_handshakes_per_address", "handshake_timeout"),
            *("session_lease", "max_subscriptions_per_client", "window_bytes"),
            *("max_subscriptions_per_account", "max_durables_per_account"),
            *("account_events_per_second", "account_bytes_per_second"),
            "account_markup_per_second",
            *("quarantine_files", "quarantine_bytes"),
        }
    ),
    "queue": frozenset({"events", "bytes", "total_bytes"}),
    "query": frozenset({"max_length", "max_cost"}),
    "types": frozenset({"max_versions", "max_bytes"}),
    "identity": frozenset({"accounts_file"}),
    "logging": frozenset({"level", "modules"}),
    "accounts": frozenset(settings_of(AccountSettings)),
}
#: Tables that are compared as a whole.
_TABLES: Final = ("streams", "event_types", "stacks", "inputs", "faults")


@attrs.frozen
class Changes:
    """Difference of a new configuration from the one in force."""

    settings: Settings
    """The settings in force, with the changed reloadable keys."""
    applied: tuple[str, ...]
    """Names of reloadable keys that changed."""
    restart: tuple[str, ...]
    """Names of other keys and tables that changed."""


def find_changes(present: Settings, new: Settings) -> Changes:
    """Compare all settings but the accounts, which stay those in force."""
    applied: list[str] = []
    restart: list[str] = []
    changed: dict[str, Any] = {}
    for table in SECTIONS:
        old = getattr(present, table)
        values: dict[str, Any] = {}
        for key in _changed_keys(old, getattr(new, table)):
            if key in RELOADABLE.get(table, ()):
                values[key] = getattr(getattr(new, table), key)
                applied.append(f"{table}.{key}")
            else:
                restart.append(f"{table}.{key}")
        changed[table] = attrs.evolve(old, **values) if values else old
    restart += [table for table in _TABLES if getattr(present, table) != getattr(new, table)]
    return Changes(attrs.evolve(present, **changed), tuple(applied), tuple(restart))


def _changed_keys(old: object, new: object) -> Iterator[str]:
    for key in settings_of(type(old)):
        if getattr(old, key) != getattr(new, key):
            yield key
