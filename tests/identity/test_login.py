from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
from twisted.cred.checkers import ICredentialsChecker
from twisted.cred.credentials import UsernamePassword
from twisted.cred.error import UnauthorizedLogin
from twisted.cred.portal import IRealm, Portal
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import Interface
from zope.interface.verify import verifyObject

from broker.config import load_text
from broker.config.identity import IdentitySettings
from broker.errors import (
    AuthenticationFailed,
    BadName,
    NotAllowed,
    Overloaded,
    ProtocolError,
    VersionMismatch,
)
from broker.event.envelope import SecurityLevel
from broker.identity import (
    Accounts,
    AccountsRealm,
    AnonymousAuthenticator,
    IAuthenticator,
    IIdentity,
    Login,
    LoginOffer,
    PortalAuthenticator,
    authenticator_for,
    hash_secret,
)
from broker.identity.checkers import (
    MAX_CONCURRENT_CHECKS,
    MAX_WAITING_CHECKS,
    ProofChecker,
    SecretChecker,
)
from broker.identity.secret_book import SecretBook
from broker.scram.mechanism import CERTIFICATE, SCRAM, TOKEN
from tests.identity.login_ends import PLAIN, FakeChannel, FakeThreads, SecretLogin

SETTINGS = load_text(
    f"""
    [identity]
    accept_sent_secrets = true

    [accounts.zbw]
    secret = "{hash_secret("open sesame")}"
    client_ids = ["zbw-*"]
    publish = ["asdi.zbw.>"]

    [accounts.rotating]
    secret = ["{hash_secret("new")}", "{hash_secret("old")}"]
    """,
    "node.toml",
)
KEY = b"k" * 32


def never_asked(challenge: bytes) -> Deferred[bytes]:
    raise AssertionError(challenge)


class LoginTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.threads = FakeThreads()
        self.accounts = Accounts(SETTINGS.accounts)
        node = attrs.evolve(SETTINGS.node, data=Path(self.mktemp()))
        self.settings = attrs.evolve(SETTINGS, node=node)
        self.authenticator = authenticator_for(self.accounts, self.settings, self.threads.defer)

    def refusal(self, login: Deferred[Login], error: type[Exception]) -> str:
        return str(self.failureResultOf(login, error).getErrorMessage())


class ProofTests(LoginTestCase):
    def log_in(self, account: str, secret: str, client_id: str = "zbw-1") -> Deferred[Login]:
        self.client = SecretLogin(account, secret.encode())
        return self.client.start(self.authenticator, client_id)

    def test_the_right_secret_gives_the_accounts_identity_and_the_nodes_proof(self) -> None:
        login = self.successResultOf(self.log_in("zbw", "open sesame"))
        self.client.exchange.check_final(login.proof)
        identity = login.identity
        self.assertEqual((identity.account, identity.client_id), ("zbw", "zbw-1"))
        self.assertEqual(identity.clearance, SecurityLevel.MED)
        self.assertTrue(identity.rights.may_publish("asdi.zbw.tz"))
        self.assertFalse(identity.administer)
        self.assertIsNone(login.expires_at)

    def test_the_node_hashes_nothing(self) -> None:
        self.successResultOf(self.log_in("zbw", "open sesame"))
        self.refusal(self.log_in("zbw", "guess"), AuthenticationFailed)
        self.assertEqual(self.threads.waiting, [])

    def test_each_secret_of_a_rotation_is_valid(self) -> None:
        for secret, challenges in (("new", 1), ("old", 2)):
            login = self.successResultOf(self.log_in("rotating", secret, "rotating"))
            self.client.exchange.check_final(login.proof)
            self.assertEqual(len(self.client.challenges), challenges)
        self.refusal(self.log_in("rotating", "older", "rotating"), AuthenticationFailed)

    def test_a_wrong_secret_and_an_unknown_account_look_alike(self) -> None:
        wrong = self.refusal(self.log_in("zbw", "guess"), AuthenticationFailed)
        unknown = self.refusal(self.log_in("nobody", "guess"), AuthenticationFailed)
        self.assertEqual(wrong, unknown)

    def test_another_clients_id_is_refused_with_the_right_secret_only(self) -> None:
        self.refusal(self.log_in("zbw", "open sesame", "alice"), NotAllowed)
        self.refusal(self.log_in("zbw", "guess", "alice"), AuthenticationFailed)

    def test_an_impossible_client_id_is_refused_without_a_challenge(self) -> None:
        self.refusal(self.log_in("zbw", "open sesame", "../zbw"), BadName)
        self.assertEqual(self.client.challenges, [])

    def test_an_account_that_is_removed_during_its_login_is_refused(self) -> None:
        client = SecretLogin("zbw", b"open sesame")
        answer = client.answer

        def answer_late(challenge: bytes) -> Deferred[bytes]:
            self.accounts.replace({})
            return answer(challenge)

        offer = LoginOffer("zbw-1", PLAIN, "zbw", SCRAM, client.exchange.first)
        self.refusal(self.authenticator.authenticate(offer, answer_late), AuthenticationFailed)

    def test_a_login_ends_with_its_connection(self) -> None:
        client = SecretLogin("zbw", b"open sesame")
        offer = LoginOffer("zbw-1", PLAIN, "zbw", SCRAM, client.exchange.first)
        login = self.authenticator.authenticate(offer, lambda challenge: Deferred())
        login.cancel()
        self.failureResultOf(login)

    def test_malformed_messages_are_errors_of_the_client(self) -> None:
        for account, data in (
            ("zbw", b""),
            ("zbw", b"\xff"),
            ("other", b"n,,n=zbw,r=" + b"n" * 20),
        ):
            offer = LoginOffer("zbw-1", PLAIN, account, SCRAM, data)
            self.refusal(self.authenticator.authenticate(offer, never_asked), ProtocolError)

    def test_an_unknown_mechanism_is_refused(self) -> None:
        offer = LoginOffer("zbw-1", PLAIN, "zbw", "plain", b"open sesame")
        text = self.refusal(
            self.authenticator.authenticate(offer, never_asked), AuthenticationFailed
        )
        self.assertIn("no login by 'plain'", text)


class ChannelBindingTests(LoginTestCase):
    def log_in(self, channel: FakeChannel, binding: str, data: bytes) -> Deferred[Login]:
        client = SecretLogin("zbw", b"open sesame", binding, data)
        return client.start(self.authenticator, "zbw-1", channel)

    def test_a_login_over_tls_is_bound_to_its_channel(self) -> None:
        channel = FakeChannel(secure=True, binding=b"keys")
        self.successResultOf(self.log_in(channel, "tls-exporter", b"keys"))
        text = self.refusal(
            self.log_in(channel, "tls-exporter", b"other keys"), AuthenticationFailed
        )
        self.assertIn("another connection", text)

    def test_no_binding_is_refused_over_tls(self) -> None:
        channel = FakeChannel(secure=True, binding=b"keys")
        self.refusal(self.log_in(channel, "", b""), AuthenticationFailed)

    def test_a_binding_is_refused_where_the_node_has_no_tls(self) -> None:
        text = self.refusal(self.log_in(PLAIN, "tls-exporter", b"keys"), AuthenticationFailed)
        self.assertIn("something between them", text)

    def test_an_unknown_binding_is_refused(self) -> None:
        channel = FakeChannel(secure=True)
        text = self.refusal(self.log_in(channel, "tls-unique", b"keys"), AuthenticationFailed)
        self.assertIn("'tls-unique' is not available", text)


class SentSecretTests(LoginTestCase):
    """Clients of earlier versions, which the node accepts by its setting."""

    def authenticate(
        self, client_id: str, account: str, secret: str, channel: FakeChannel = PLAIN
    ) -> Deferred[Login]:
        offer = LoginOffer(client_id, channel, account, sent_secret=secret)
        return self.authenticator.authenticate(offer, never_asked)

    def test_they_are_refused_by_default(self) -> None:
        settings = attrs.evolve(self.settings, identity=IdentitySettings())
        self.authenticator = authenticator_for(self.accounts, settings, self.threads.defer)
        text = self.refusal(self.authenticate("zbw-1", "zbw", "open sesame"), VersionMismatch)
        self.assertIn("must speak version 7", text)
        self.assertEqual(self.threads.waiting, [])

    def test_they_are_refused_over_clear_text(self) -> None:
        channel = FakeChannel(confidential=False)
        login = self.authenticate("zbw-1", "zbw", "open sesame", channel)
        self.refusal(login, AuthenticationFailed)
        self.assertEqual(self.threads.waiting, [])

    def test_each_secret_is_checked_in_a_thread(self) -> None:
        for account, secret in (("zbw-1", "open sesame"), ("rotating", "new"), ("rotating", "old")):
            login = self.authenticate(account, account.removesuffix("-1"), secret)
            self.assertNoResult(login)
            self.threads.run_all()
            self.successResultOf(login)

    def test_a_wrong_secret_and_an_unknown_account_look_alike_and_cost_alike(self) -> None:
        logins = [self.authenticate("zbw-1", account, "guess") for account in ("zbw", "nobody")]
        self.threads.run_all()
        texts = {self.refusal(login, AuthenticationFailed) for login in logins}
        self.assertEqual((len(texts), self.threads.run), (1, 2))

    def test_a_missing_credential_is_refused(self) -> None:
        for account in ("", "zbw"):
            offer = LoginOffer("zbw-1", PLAIN, account)
            self.refusal(self.authenticator.authenticate(offer, never_asked), AuthenticationFailed)
        self.assertEqual(self.threads.waiting, [])

    def test_an_account_name_of_strange_bytes_is_an_unknown_account(self) -> None:
        checker = SecretChecker(self.accounts, SecretBook(self.accounts, KEY), self.threads.defer)
        checked = checker.requestAvatarId(UsernamePassword(b"\xff\xfe", b"guess"))
        self.threads.run_all()
        self.failureResultOf(checked, UnauthorizedLogin)
        login = self.authenticate("zbw-1", "\ud800", "guess")
        self.threads.run_all()
        self.refusal(login, AuthenticationFailed)

    def test_only_a_few_secrets_are_checked_at_once(self) -> None:
        logins = [self.authenticate("zbw-1", "zbw", "guess") for _ in range(5)]
        self.assertEqual(len(self.threads.waiting), MAX_CONCURRENT_CHECKS)
        self.threads.run_all()
        for login in logins:
            self.refusal(login, AuthenticationFailed)

    def test_waiters_beyond_the_limit_get_an_error_and_the_others_are_served(self) -> None:
        logins = [
            self.authenticate("zbw-1", "zbw", "s" * 2000)
            for _ in range(MAX_CONCURRENT_CHECKS + MAX_WAITING_CHECKS)
        ]
        one_more = self.authenticate("zbw-1", "zbw", "open sesame")
        self.refusal(one_more, Overloaded)
        self.threads.run_all()
        for login in logins:
            self.refusal(login, AuthenticationFailed)

    def test_the_check_of_a_client_that_hangs_up_is_dropped(self) -> None:
        logins = [self.authenticate("zbw-1", "zbw", "guess") for _ in range(4)]
        # One whose check runs, and one that waits.
        for login in (logins[0], logins[3]):
            login.cancel()
            self.failureResultOf(login)
        self.assertEqual(len(self.threads.waiting), 2)
        self.threads.run_all()
        self.assertEqual(self.threads.run, 3)
        for login in logins[1:3]:
            self.refusal(login, AuthenticationFailed)


class RealmTests(LoginTestCase):
    def test_the_classes_implement_twisted_cred(self) -> None:
        book = SecretBook(self.accounts, KEY)
        verifyObject(IAuthenticator, self.authenticator)
        verifyObject(IRealm, AccountsRealm(self.accounts))
        verifyObject(ICredentialsChecker, ProofChecker(self.accounts, book))
        self.assertIsInstance(self.authenticator, PortalAuthenticator)

    def test_the_realm_knows_no_other_avatar_than_an_identity(self) -> None:
        realm = AccountsRealm(self.accounts)
        with self.assertRaises(NotImplementedError):
            realm.requestAvatar(b"zbw", "zbw-1", IReactorTime)

    def test_the_realm_rejects_an_anonymous_avatar(self) -> None:
        realm = AccountsRealm(self.accounts)
        with self.assertRaises(UnauthorizedLogin):
            realm.requestAvatar((), "zbw-1", IIdentity)
        with self.assertRaises(UnauthorizedLogin):
            realm.requestAvatar(b"zbw", None, IIdentity)

    def test_a_realm_with_another_kind_of_avatar_is_an_error(self) -> None:
        class OtherRealm(AccountsRealm):
            def requestAvatar(
                self, avatarId: object, mind: object, *interfaces: object
            ) -> tuple[type[Interface], object, Callable[[], None]]:
                return IIdentity, object(), lambda: None

        book = SecretBook(self.accounts, KEY)
        portal = Portal(OtherRealm(self.accounts), [ProofChecker(self.accounts, book)])
        login = SecretLogin("zbw", b"open sesame").start(PortalAuthenticator(portal, book), "zbw-1")
        self.refusal(login, TypeError)

    def test_credentials_that_the_node_has_no_setting_for_are_refused(self) -> None:
        for mechanism in (TOKEN, CERTIFICATE):
            offer = LoginOffer("zbw-1", PLAIN, "zbw", mechanism, b"x")
            self.refusal(self.authenticator.authenticate(offer, never_asked), AuthenticationFailed)


class AnonymousAuthenticatorTests(LoginTestCase):
    def test_everyone_is_let_in(self) -> None:
        authenticator = authenticator_for(Accounts(), self.settings, self.threads.defer)
        verifyObject(IAuthenticator, authenticator)
        self.assertIsInstance(authenticator, AnonymousAuthenticator)
        offer = LoginOffer("someone", PLAIN)
        identity = self.successResultOf(authenticator.authenticate(offer, never_asked)).identity
        self.assertEqual((identity.account, identity.client_id), ("", "someone"))
        self.assertTrue(identity.administer)

    def test_there_are_no_keys_to_load(self) -> None:
        self.assertFalse(AnonymousAuthenticator().load_keys()())

    def test_an_impossible_client_id_is_refused(self) -> None:
        offer = LoginOffer("a b", PLAIN)
        self.refusal(AnonymousAuthenticator().authenticate(offer, never_asked), BadName)
