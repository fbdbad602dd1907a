"""Accounts in a file of their own, which commands edit."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.config.identity import AccountSettings
from broker.config.setting import settings_of
from broker.config.toml import load_accounts
from broker.dtd.atomic_file import write_atomically
from broker.errors import ConfigurationError

_HEADER: Final = """\
# Accounts of xmlbroker nodes. `xmlbroker account` edits this file and drops comments.
# After a change: `xmlbroker reload`, or SIGHUP to the node.
"""
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


class AccountsFile:
    """The file of `identity.accounts_file`: mode 0600, replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, AccountSettings]:
        """Return accounts by name; none without a file. Raises `ConfigurationError`."""
        if not self.path.exists():
            return {}
        return {each.name: each for each in load_accounts(self.path)}

    @contextlib.contextmanager
    def change(self) -> Iterator[dict[str, AccountSettings]]:
        """Yield the accounts, and write them unless the block raises an error.

        Another process that changes the file waits. Raises `ConfigurationError`.
        """
        try:
            with self._lock():
                accounts = self.read()
                yield accounts
                text = _HEADER + "".join(map(format_account, accounts.values()))
                write_atomically(self.path, text.encode(), sync=True, is_private=True)
        except OSError as error:
            raise ConfigurationError(f"{self.path} can not be written: {error.strerror}") from None

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        # The file itself is replaced.
        path = self.path.with_name(f"{self.path.name}.lock")
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)


def format_account(account: AccountSettings) -> str:
    """Return an account as a TOML table, without defaults."""
    name = account.name if _BARE_KEY.fullmatch(account.name) else json.dumps(account.name)
    text = f"\n[accounts.{name}]\n"
    for key, (field, setting) in settings_of(AccountSettings).items():
        value, factory = getattr(account, key), getattr(field.default, "factory", None)
        if value != (field.default if factory is None else factory(account)):
            text += f"{key} = {setting.kind.write(value)}\n"
    return text
