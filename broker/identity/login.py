"""Login through `twisted.cred`: the client id is the `mind`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from twisted.cred.checkers import ICredentialsChecker
from twisted.cred.credentials import IUsernamePassword, UsernamePassword
from twisted.cred.error import LoginFailed, UnauthorizedLogin
from twisted.cred.portal import IRealm, Portal
from twisted.internet.defer import Deferred, DeferredSemaphore, fail, maybeDeferred
from twisted.python.failure import Failure
from zope.interface import Interface, implementer

from broker.errors import AuthenticationFailed, Overloaded
from broker.event.stream import check_client_id
from broker.identity.accounts import Accounts, identity_for
from broker.identity.identity import Identity, anonymous_identity
from broker.identity.interfaces import IAuthenticator, IIdentity
from broker.identity.secret import matches_secret, unmatchable_secret

#: Runs a function in another thread, as Twisted's `deferToThread`.
DeferToThread: TypeAlias = Callable[[Callable[[], bool]], "Deferred[bool]"]

#: Each check uses a processor and 16 MiB.
MAX_CONCURRENT_CHECKS: Final = 2
#: Clients that wait for a check; one more gets `Overloaded`.
MAX_WAITING_CHECKS: Final = 1000

_REFUSAL: Final = "the account or its secret is wrong, or none was given"


@implementer(ICredentialsChecker)
class SecretChecker:
    """Checks an account's secret.

    A cancelled check that waits is dropped. One that runs keeps its slot until it ends. An unknown
    account costs as much as a wrong secret, so timing does not reveal names.
    """

    credentialInterfaces = (IUsernamePassword,)

    def __init__(self, accounts: Accounts, defer_to_thread: DeferToThread) -> None:
        self._accounts = accounts
        self._defer_to_thread = defer_to_thread
        self._slots = DeferredSemaphore(MAX_CONCURRENT_CHECKS)
        self._unmatchable = unmatchable_secret()

    def requestAvatarId(self, credentials: UsernamePassword) -> Deferred[bytes | tuple[()]]:
        """Fails with `UnauthorizedLogin` or `Overloaded`."""
        name = credentials.username.decode("utf-8", "replace")
        account = self._accounts.find(name)
        stored = self._unmatchable if account is None else account.secret
        secret = credentials.password
        if len(self._slots.waiting) >= MAX_WAITING_CHECKS:
            return fail(
                Overloaded(f"{MAX_WAITING_CHECKS} clients wait for a login; try again later")
            )

        def answer(right: bool) -> bytes | tuple[()]:
            if not right or account is None:
                raise UnauthorizedLogin(_REFUSAL)
            return account.name.encode()

        def run(_: object) -> Deferred[bool]:
            result: Deferred[bool] = Deferred()
            running = self._defer_to_thread(lambda: matches_secret(secret, stored))
            running.addBoth(self._free_slot).chainDeferred(result)
            return result

        return self._slots.acquire().addCallback(run).addCallback(answer)

    def _free_slot(self, outcome: bool | Failure) -> bool | Failure:
        self._slots.release()
        return outcome


@implementer(IRealm)
class AccountsRealm:
    """Realm of accounts; the mind is a client id."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def requestAvatar(
        self, avatarId: bytes | tuple[()], mind: object, *interfaces: type[Interface]
    ) -> tuple[type[Interface], object, Callable[[], None]]:
        """Return the triple for `Portal.login`; logging out does nothing."""
        if IIdentity not in interfaces:
            raise NotImplementedError("only IIdentity avatars are supported")
        if not isinstance(avatarId, bytes) or not isinstance(mind, str):
            raise UnauthorizedLogin("an account, and a client id as the mind, are required")
        account = self._accounts.find(avatarId.decode())
        if account is None:
            raise UnauthorizedLogin("the account was removed during its login")
        return IIdentity, identity_for(account, mind), lambda: None


@implementer(IAuthenticator)
class PortalAuthenticator:
    """Authenticates by a portal."""

    def __init__(self, portal: Portal) -> None:
        self._portal = portal

    def authenticate(
        self, client_id: str, account: str | None, secret: bytes | None
    ) -> Deferred[Identity]:
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
            raise TypeError(f"the portal's realm returned {identity!r}, not an Identity")
        return identity


@implementer(IAuthenticator)
class AnonymousAuthenticator:
    """Accepts every client. Only for nodes that listen on loopback alone."""

    def authenticate(
        self, client_id: str, account: str | None, secret: bytes | None
    ) -> Deferred[Identity]:
        return maybeDeferred(anonymous_identity, client_id)


def accounts_portal(accounts: Accounts, defer_to_thread: DeferToThread) -> Portal:
    return Portal(AccountsRealm(accounts), [SecretChecker(accounts, defer_to_thread)])


def authenticator_for(accounts: Accounts, defer_to_thread: DeferToThread) -> IAuthenticator:
    """Return a node's authenticator; without accounts at the start it accepts every client."""
    if not accounts:
        return AnonymousAuthenticator()
    return PortalAuthenticator(accounts_portal(accounts, defer_to_thread))
