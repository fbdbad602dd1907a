"""Logging in through `twisted.cred`: the checker of secrets, the realm of accounts, the portal.

A client presents an account's name, its secret and the client id that it wants to be. The checker
looks at the first two, off the reactor's thread; the realm makes the `Identity` from the account
and the client id, which travels through the portal as the `mind`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from twisted.cred.checkers import ICredentialsChecker
from twisted.cred.credentials import IUsernamePassword, UsernamePassword
from twisted.cred.error import LoginFailed, UnauthorizedLogin
from twisted.cred.portal import IRealm, Portal
from twisted.internet.defer import Deferred, DeferredSemaphore, fail, maybeDeferred
from zope.interface import Interface, implementer

from broker.config.settings import AccountSettings
from broker.errors import AuthenticationFailed, Overloaded
from broker.event.stream import check_client_id
from broker.identity.accounts import Account, accounts_by_name, identity_for
from broker.identity.interfaces import IAuthenticator, IIdentity
from broker.identity.secret import is_secret, unmatchable_secret
from broker.identity.who import Identity, anonymous

#: Runs a function in another thread; `twisted.internet.threads.deferToThread` is one.
DeferToThread: TypeAlias = Callable[[Callable[[], bool]], "Deferred[bool]"]

#: Secrets that are checked at once: each keeps a processor and 16 MiB busy.
MOST_AT_ONCE: Final = 2
#: Clients that wait to be checked; one more is told to come back.
MOST_WAITING: Final = 1000

_REFUSAL: Final = "the account or its secret is wrong, or none was given"


@implementer(ICredentialsChecker)
class SecretChecker:
    """Checks an account's name and secret against the stored hashes.

    An unknown account costs what a wrong secret does, so that names can not be found by timing.
    """

    credentialInterfaces = (IUsernamePassword,)

    def __init__(self, accounts: Mapping[str, Account], defer_to_thread: DeferToThread) -> None:
        self._accounts = accounts
        self._defer_to_thread = defer_to_thread
        self._turns = DeferredSemaphore(MOST_AT_ONCE)
        self._unmatchable = unmatchable_secret()

    def requestAvatarId(self, credentials: UsernamePassword) -> Deferred[bytes | tuple[()]]:
        """The account's name; `UnauthorizedLogin`, or `Overloaded` when too many wait."""
        name = credentials.username.decode("utf-8", "replace")
        account = self._accounts.get(name)
        stored = self._unmatchable if account is None else account.secret
        secret = credentials.password
        if len(self._turns.waiting) >= MOST_WAITING:
            return fail(Overloaded(f"{MOST_WAITING} clients wait to be checked; try again later"))

        def answer(right: bool) -> bytes | tuple[()]:
            if not right or account is None:
                raise UnauthorizedLogin(_REFUSAL)
            return account.name.encode()

        checked = self._turns.run(self._defer_to_thread, lambda: is_secret(secret, stored))
        return checked.addCallback(answer)


@implementer(IRealm)
class AccountsRealm:
    """Turns an account's name, and the client id given as the mind, into an `Identity`."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts

    def requestAvatar(
        self, avatarId: bytes | tuple[()], mind: object, *interfaces: type[Interface]
    ) -> tuple[type[Interface], object, Callable[[], None]]:
        """The triple that `Portal.login` gives; there is nothing to do at logging out."""
        if IIdentity not in interfaces:
            raise NotImplementedError("the accounts' only avatars are IIdentity")
        if not isinstance(avatarId, bytes) or not isinstance(mind, str):
            raise UnauthorizedLogin("an account and, as the mind, a client id are needed")
        account = self._accounts[avatarId.decode()]
        return IIdentity, identity_for(account, mind), lambda: None


@implementer(IAuthenticator)
class PortalAuthenticator:
    """Asks a portal of `twisted.cred`: ours, or one with another checker behind it."""

    def __init__(self, portal: Portal) -> None:
        self._portal = portal

    def authenticate(
        self, client_id: str, account: str | None, secret: bytes | None
    ) -> Deferred[Identity]:
        """See `IAuthenticator`."""
        return maybeDeferred(self._log_in, client_id, account, secret)

    async def _log_in(self, client_id: str, account: str | None, secret: bytes | None) -> Identity:
        check_client_id(client_id)
        if account is None or secret is None:
            raise AuthenticationFailed(_REFUSAL)
        credentials = UsernamePassword(account.encode("utf-8", "replace"), secret)
        try:
            _, identity, _ = await self._portal.login(credentials, client_id, IIdentity)
        except LoginFailed:
            raise AuthenticationFailed(_REFUSAL) from None
        if not isinstance(identity, Identity):
            raise TypeError(f"the portal's realm made {identity!r}, which is no Identity")
        return identity


@implementer(IAuthenticator)
class OpenDoor:
    """Lets everyone in, as is right only where loopback is all that is listened on."""

    def authenticate(
        self, client_id: str, account: str | None, secret: bytes | None
    ) -> Deferred[Identity]:
        """See `IAuthenticator`. What is presented is not looked at."""
        return maybeDeferred(anonymous, client_id)


def accounts_portal(accounts: Mapping[str, Account], defer_to_thread: DeferToThread) -> Portal:
    """A portal over the accounts of the configuration."""
    return Portal(AccountsRealm(accounts), [SecretChecker(accounts, defer_to_thread)])


def authenticator_for(
    settings: Iterable[AccountSettings], defer_to_thread: DeferToThread
) -> IAuthenticator:
    """What decides at a node with these accounts; without any, everyone is let in."""
    accounts = accounts_by_name(settings)
    if not accounts:
        return OpenDoor()
    return PortalAuthenticator(accounts_portal(accounts, defer_to_thread))
