"""Replacement of digests of earlier versions in the file of accounts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.config.accounts_file import AccountsFile


class DigestRewriter:
    """Writes the present form of all secrets into `identity.accounts_file`, once in a process.

    With a digest of an earlier version a thief of the file could log in; with the present form
    nobody can. A digest has all that the present form needs.
    """

    log = Logger()

    def __init__(self, path: Path, run_in_pool: Callable[..., Deferred[Any]]) -> None:
        self._path = path
        self._run_in_pool = run_in_pool
        self._has_run = False

    def rewrite(self) -> None:
        """Call it after a login with a digest."""
        if not self._has_run:
            self._has_run = True
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
