"""Login through `twisted.cred`: the client id is the `mind`."""

from __future__ import annotations

from collections.abc import Callable

from twisted.cred.checkers import ICredentialsChecker
from twisted.cred.credentials import ICredentials, UsernamePassword
from twisted.cred.error import LoginFailed, UnauthorizedLogin, UnhandledCredentials
from twisted.cred.portal import IRealm, Portal
from twisted.internet.defer import Deferred, maybeDeferred
from zope.interface import Interface, implementer

from broker.config.settings import Settings
from broker.errors import AuthenticationFailed, ProtocolError, VersionMismatch
from broker.event.stream import check_client_id
from broker.identity.accounts import Accounts, identity_for
from broker.identity.checkers import (
    REFUSAL,
    CertificateChecker,
    DeferToThread,
    ProofChecker,
    SecretChecker,
    TokenChecker,
)
from broker.identity.credentials import BearerToken, ClientCertificate, SecretProof
from broker.identity.digest_rewriter import DigestRewriter
from broker.identity.identity import Identity, anonymous_identity
from broker.identity.interfaces import (
    Ask,
    IAuthenticator,
    IIdentity,
    Login,
    LoginOffer,
)
from broker.identity.secret_book import SecretBook, load_login_key
from broker.identity.tokens import TokenVerifier
from broker.scram import ClientFirst, NodeExchange
from broker.scram.mechanism import CERTIFICATE, SCRAM, TOKEN
from broker.transport.socket import ISocketChannel


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

    def __init__(
        self,
        portal: Portal,
        secrets: SecretBook,
        tokens: TokenVerifier | None = None,
        *,
        accept_sent_secrets: bool = False,
    ) -> None:
        """`tokens` is that of the portal."""
        self._portal = portal
        self.on_digest: Callable[[], None] = lambda: None
        """Called after a login with a digest of an earlier version."""
        self._secrets = secrets
        self._tokens = tokens
        self._accept_sent_secrets = accept_sent_secrets

    def authenticate(self, offer: LoginOffer, ask: Ask) -> Deferred[Login]:
        return Deferred.fromCoroutine(self._log_in(offer, ask))

    def load_keys(self) -> Callable[[], bool]:
        return self._tokens.load_again() if self._tokens is not None else lambda: False

    async def _log_in(self, offer: LoginOffer, ask: Ask) -> Login:
        check_client_id(offer.client_id)
        if offer.mechanism == SCRAM:
            login = await self._log_in_by_proof(offer, ask)
        elif offer.mechanism == CERTIFICATE:
            login = await self._log_in_by_certificate(offer)
        elif offer.mechanism == TOKEN:
            login = await self._log_in_by_token(offer)
        elif not offer.mechanism:
            login = await self._log_in_by_sent_secret(offer)
        else:
            raise AuthenticationFailed(f"this node has no login by {offer.mechanism[:40]!r}")
        if offer.account and offer.account != login.identity.account:
            raise AuthenticationFailed(
                f"the credential is for another account than {offer.account[:64]!r}"
            )
        return login

    async def _log_in_by_proof(self, offer: LoginOffer, ask: Ask) -> Login:
        """Challenge the client for each secret of the account, until one is right."""
        first = ClientFirst.parse(offer.data)
        if first.account != offer.account:
            raise ProtocolError("the first message of a login names another account than Hello")
        binding_data = _find_binding(first, offer)
        for stored in self._secrets.find(first.account):
            exchange = NodeExchange(first, binding_data)
            response = await ask(exchange.challenge(stored.derivation))
            proof = SecretProof(first.account, stored, exchange, response)
            try:
                identity = await self._enter(proof, offer)
            except UnauthorizedLogin:
                continue
            if stored.is_digest:
                self.on_digest()
            return Login(identity, proof.final)
        raise AuthenticationFailed(REFUSAL)

    async def _log_in_by_certificate(self, offer: LoginOffer) -> Login:
        certificate = offer.peer_certificate()
        if certificate is None:
            raise AuthenticationFailed(
                "there is no certificate of the client: give one, and connect to an ssl endpoint "
                "of a node with identity.client_authority"
            )
        credential = ClientCertificate(certificate)
        identity = await self._enter(credential, offer)
        return Login(identity, expires_at=credential.expires_at)

    async def _log_in_by_token(self, offer: LoginOffer) -> Login:
        _check_confidential(offer.channel, "a token")
        token = BearerToken(offer.data)
        try:
            identity = await self._enter(token, offer)
        except UnhandledCredentials:
            raise AuthenticationFailed("this node takes no tokens") from None
        return Login(identity, expires_at=token.expires_at)

    async def _log_in_by_sent_secret(self, offer: LoginOffer) -> Login:
        if not offer.account or offer.sent_secret is None:
            raise AuthenticationFailed(REFUSAL)
        if not self._accept_sent_secrets:
            raise VersionMismatch(
                "this node takes no secret over the connection: "
                "the client must speak version 7 of the session protocol"
            )
        _check_confidential(offer.channel, "a secret")
        name, secret = (
            text.encode("utf-8", "replace") for text in (offer.account, offer.sent_secret)
        )
        try:
            return Login(await self._enter(UsernamePassword(name, secret), offer))
        except LoginFailed:
            raise AuthenticationFailed(REFUSAL) from None

    async def _enter(self, credential: ICredentials, offer: LoginOffer) -> Identity:
        _, identity, _ = await self._portal.login(credential, offer.client_id, IIdentity)
        if not isinstance(identity, Identity):
            raise TypeError(f"the portal's realm returned {identity!r}, not an Identity")
        return identity


def _check_confidential(channel: ISocketChannel, credential: str) -> None:
    if not channel.confidential:
        raise AuthenticationFailed(f"{credential} needs TLS, or a connection on this machine")


def _find_binding(first: ClientFirst, offer: LoginOffer) -> bytes:
    """Return the data of the channel binding. Raises `AuthenticationFailed`."""
    if not offer.channel.secure:
        if first.binding:
            raise AuthenticationFailed(
                "the client uses TLS, and the node does not: something between them ends it"
            )
        return b""
    if not first.binding:
        raise AuthenticationFailed("over TLS a login by secret needs a channel binding")
    data = offer.binding_data(first.binding)
    if data is None:
        raise AuthenticationFailed(
            f"the channel binding {first.binding[:40]!r} is not available on this connection"
        )
    return data


@implementer(IAuthenticator)
class AnonymousAuthenticator:
    """Accepts every client. Only for nodes that listen on loopback alone."""

    def authenticate(self, offer: LoginOffer, ask: Ask) -> Deferred[Login]:
        return maybeDeferred(lambda: Login(anonymous_identity(offer.client_id)))

    def load_keys(self) -> Callable[[], bool]:
        return lambda: False


def accounts_portal(
    accounts: Accounts,
    secrets: SecretBook,
    tokens: TokenVerifier | None,
    defer_to_thread: DeferToThread,
) -> Portal:
    checkers: list[ICredentialsChecker] = [
        ProofChecker(accounts, secrets),
        SecretChecker(accounts, secrets, defer_to_thread),
        CertificateChecker(accounts),
    ]
    if tokens is not None:
        checkers.append(TokenChecker(accounts, tokens))
    return Portal(AccountsRealm(accounts), checkers)


def authenticator_for(
    accounts: Accounts, settings: Settings, defer_to_thread: DeferToThread
) -> IAuthenticator:
    """Return a node's authenticator; without accounts at the start it accepts every client.

    The key for false salts is in the data folder. Raises `ConfigurationError`.
    """
    if not accounts:
        return AnonymousAuthenticator()
    secrets = SecretBook(accounts, load_login_key(settings.node.data))
    tokens = None if settings.identity.token_keys is None else TokenVerifier(settings.identity)
    authenticator = PortalAuthenticator(
        accounts_portal(accounts, secrets, tokens, defer_to_thread),
        secrets,
        tokens,
        accept_sent_secrets=settings.identity.accept_sent_secrets,
    )
    if settings.identity.accounts_file is not None:
        rewriter = DigestRewriter(settings.identity.accounts_file, accounts, defer_to_thread)
        authenticator.on_digest = rewriter.rewrite
    return authenticator
