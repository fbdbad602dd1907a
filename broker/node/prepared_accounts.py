"""Accounts of a new configuration, made and compared in short steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker.config.identity import AccountSettings
from broker.config.settings_stream import decode_accounts
from broker.identity import Account, Accounts


class PreparedAccounts:
    """The next accounts of a node. Unchanged ones are the objects of the present ones."""

    def __init__(self, present: Sequence[AccountSettings], accounts: Accounts) -> None:
        self._present = list(present)
        self._accounts = accounts
        self._previous = list(accounts.by_name.values())
        self.settings: tuple[AccountSettings, ...] = ()
        self.by_name: dict[str, Account] = {}
        self.has_changed = False

    @property
    def needs_restart(self) -> bool:
        """True for the first or last account: a node decides at its start to admit everybody."""
        return bool(self._accounts) != bool(self.by_name)

    def decode(self, pieces: Sequence[bytes]) -> Iterator[None]:
        """Yield after each step of less than a millisecond."""
        present = {each.name: each for each in self._present}
        settings: list[AccountSettings] = []
        for piece in pieces:
            for new in decode_accounts(piece):
                old, account = present.get(new.name), self._accounts.find(new.name)
                if old == new and account is not None:
                    settings.append(old)
                else:
                    self.has_changed = True
                    settings.append(new)
                    account = Account.from_settings(new)
                self.by_name[new.name] = account
            yield
        self.settings = tuple(settings)
        self.has_changed = self.has_changed or len(settings) != len(self._present)

    def release(self) -> Iterator[None]:
        """Release the previous accounts; all at once would take tens of milliseconds."""
        for each in (self._present, self._previous):
            while each:
                del each[-20:]
                yield
