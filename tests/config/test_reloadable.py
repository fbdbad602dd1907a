from __future__ import annotations

import attrs
import pytest

from broker.config import Settings, load_text
from broker.config.reloadable import RELOADABLE, find_changes
from broker.config.setting import settings_of
from broker.config.settings import SECTIONS
from broker.identity import hash_secret

SECRET = hash_secret("secret")
ACCOUNT = f'[accounts.feed]\nsecret = "{SECRET}"\n'


def read(text: str) -> Settings:
    return load_text(text, "node.toml")


def test_the_table_names_settings() -> None:
    for table, keys in RELOADABLE.items():
        if table != "accounts":
            assert keys <= set(settings_of(SECTIONS[table])), table


def test_equal_configurations_have_no_changes_beside_accounts() -> None:
    settings = read(ACCOUNT)
    changes = find_changes(settings, read(""))
    assert (changes.applied, changes.restart) == ((), ())
    assert changes.settings == settings


@pytest.mark.parametrize(
    ("text", "applied", "restart"),
    [
        ("limits.max_sessions = 7", ("limits.max_sessions",), ()),
        ("log.max_bytes = '2MiB'", (), ("log.max_bytes",)),
        (
            "limits = {max_depth = 9, session_lease = 1}",
            ("limits.session_lease",),
            ("limits.max_depth",),
        ),
        ("[streams.a]\nacknowledge = 'node'", (), ("streams",)),
    ],
)
def test_each_changed_key_is_applied_or_needs_a_restart(
    text: str, applied: tuple[str, ...], restart: tuple[str, ...]
) -> None:
    present = Settings()
    changes = find_changes(present, read(text))
    assert (changes.applied, changes.restart) == (applied, restart)
    # A key that needs a restart keeps its value.
    assert changes.settings.limits.max_depth == present.limits.max_depth
    assert changes.settings.log == present.log
    if "limits.session_lease" in applied:
        assert changes.settings.limits == attrs.evolve(present.limits, session_lease=1.0)
