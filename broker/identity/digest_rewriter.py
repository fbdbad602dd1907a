"""Replacement of digests of earlier versions in the file of accounts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.config.accounts_file import AccountsFile
from broker.identity.accounts import Accounts


class DigestRewriter:
    """Writes the present form of all secrets into `identity.accounts_file`, once after the start
    and each reload.

    With a digest of an earlier version a thief of the file could log in; with the present form
    nobody can. A digest has all that the present form needs.
    """

    log = Logger()

    def __init__(
        self, path: Path, accounts: Accounts, run_in_pool: Callable[..., Deferred[Any]]
    ) -> None:
        self._path = path
        self._accounts = accounts
        self._run_in_pool = run_in_pool
        self._rewritten: object = None
        """The accounts whose file was rewritten."""

    def rewrite(self) -> None:
        """Call it after a login with a digest."""
        if self._rewritten is not self._accounts.by_name:
            self._rewritten = self._accounts.by_name
            self._run_in_pool(self._rewrite_file).addErrback(self._warn)

    def _rewrite_file(self) -> None:
        file = AccountsFile(self._path)
        if any(secret.is_digest for each in file.read().values() for secret in each.secret):
            with file.change():
                self.log.info("{path}: secrets get their present form", path=self._path)

    def _warn(self, failure: Failure) -> None:
        self.log.warn(
            "the digests of secrets stay in {path}: {error}", path=self._path, error=failure.value
        )
