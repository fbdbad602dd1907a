"""Checkers of `twisted.cred`: they find the account of a credential."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from twisted.cred.checkers import ICredentialsChecker
from twisted.cred.credentials import IUsernamePassword, UsernamePassword
from twisted.cred.error import UnauthorizedLogin
from twisted.internet.defer import Deferred, DeferredSemaphore, fail, maybeDeferred
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.errors import AuthenticationFailed, Overloaded
from broker.identity.accounts import Accounts
from broker.identity.credentials import (
    BearerToken,
    ClientCertificate,
    IBearerToken,
    IClientCertificate,
    ISecretProof,
    SecretProof,
)
from broker.identity.secret import matches_secret
from broker.identity.secret_book import SecretBook
from broker.identity.tokens import TokenVerifier

#: Runs a function in another thread, as Twisted's `deferToThread`.
DeferToThread: TypeAlias = Callable[[Callable[[], bool]], "Deferred[bool]"]

#: Each check uses a processor for tens of ms.
MAX_CONCURRENT_CHECKS: Final = 2
#: Clients that wait for a check; one more gets `Overloaded`.
MAX_WAITING_CHECKS: Final = 1000

REFUSAL: Final = "the account or its secret is wrong, or none was given"


@implementer(ICredentialsChecker)
class ProofChecker:
    """Checks the proof of an account's secret."""

    credentialInterfaces = (ISecretProof,)

    def __init__(self, accounts: Accounts, secrets: SecretBook) -> None:
        self._accounts = accounts
        self._secrets = secrets

    def requestAvatarId(self, credentials: SecretProof) -> Deferred[bytes | tuple[()]]:
        return maybeDeferred(self._find_account, credentials)

    def _find_account(self, credentials: SecretProof) -> bytes | tuple[()]:
        """Raises `UnauthorizedLogin`."""
        # An unknown name is checked against false keys: it takes as long.
        right = [credentials.check_proof(each) for each in self._secrets.find(credentials.name)]
        if not any(right) or self._accounts.find(credentials.name) is None:
            raise UnauthorizedLogin(REFUSAL)
        return credentials.name.encode()


@implementer(ICredentialsChecker)
class SecretChecker:
    """Checks an account's secret, as clients of session protocol 6 send it.

    A cancelled check that waits is dropped. One that runs keeps its slot until it ends. An unknown
    account costs as much as a wrong secret, so timing does not reveal names.
    """

    credentialInterfaces = (IUsernamePassword,)

    def __init__(
        self, accounts: Accounts, secrets: SecretBook, defer_to_thread: DeferToThread
    ) -> None:
        self._accounts = accounts
        self._secrets = secrets
        self._defer_to_thread = defer_to_thread
        self._slots = DeferredSemaphore(MAX_CONCURRENT_CHECKS)

    def requestAvatarId(self, credentials: UsernamePassword) -> Deferred[bytes | tuple[()]]:
        """Fails with `UnauthorizedLogin` or `Overloaded`."""
        name = credentials.username.decode("utf-8", "replace")
        stored = self._secrets.find(name)
        is_known = self._accounts.find(name) is not None
        secret = credentials.password
        if len(self._slots.waiting) >= MAX_WAITING_CHECKS:
            return fail(
                Overloaded(f"{MAX_WAITING_CHECKS} clients wait for a login; try again later")
            )

        def answer(right: bool) -> bytes | tuple[()]:
            if not right or not is_known:
                raise UnauthorizedLogin(REFUSAL)
            return name.encode()

        def run(_: object) -> Deferred[bool]:
            result: Deferred[bool] = Deferred()
            running = self._defer_to_thread(
                lambda: any(matches_secret(secret, each) for each in stored)
            )
            running.addBoth(self._free_slot).chainDeferred(result)
            return result

        return self._slots.acquire().addCallback(run).addCallback(answer)

    def _free_slot(self, outcome: bool | Failure) -> bool | Failure:
        self._slots.release()
        return outcome


@implementer(ICredentialsChecker)
class CertificateChecker:
    """Finds the account of a client's certificate, which TLS has verified."""

    credentialInterfaces = (IClientCertificate,)

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def requestAvatarId(self, credentials: ClientCertificate) -> Deferred[bytes | tuple[()]]:
        return maybeDeferred(self._find_account, credentials)

    def _find_account(self, credentials: ClientCertificate) -> bytes | tuple[()]:
        """Raises `AuthenticationFailed`."""
        from broker.identity.certificate_names import read_names

        names, credentials.expires_at = read_names(credentials.certificate)
        for name in names:
            account = self._accounts.find_by_certificate(name)
            if account is not None:
                return account.name.encode()
        raise AuthenticationFailed(f"no account has the certificate {names[0][:200]}")


@implementer(ICredentialsChecker)
class TokenChecker:
    """Finds the account of a bearer token."""

    credentialInterfaces = (IBearerToken,)

    def __init__(self, accounts: Accounts, verifier: TokenVerifier) -> None:
        self._accounts = accounts
        self._verifier = verifier

    def requestAvatarId(self, credentials: BearerToken) -> Deferred[bytes | tuple[()]]:
        return maybeDeferred(self._find_account, credentials)

    def _find_account(self, credentials: BearerToken) -> bytes | tuple[()]:
        """Raises `AuthenticationFailed`."""
        subject, credentials.expires_at = self._verifier.verify(credentials.token)
        account = self._accounts.find_by_token(subject)
        if account is None:
            raise AuthenticationFailed(f"no account has the token {subject[:200]}")
        return account.name.encode()
