from __future__ import annotations

from collections.abc import Callable

from twisted.cred.checkers import ICredentialsChecker
from twisted.cred.credentials import UsernamePassword
from twisted.cred.error import UnauthorizedLogin
from twisted.cred.portal import IRealm, Portal
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import Interface
from zope.interface.verify import verifyObject

from broker.config import load_text
from broker.errors import AuthenticationFailed, BadName, NotAllowed, Overloaded
from broker.event.envelope import SecurityLevel
from broker.identity import (
    Accounts,
    AccountsRealm,
    AnonymousAuthenticator,
    IAuthenticator,
    IIdentity,
    PortalAuthenticator,
    SecretChecker,
    authenticator_for,
    hash_secret,
)
from broker.identity.identity import Identity
from broker.identity.login import MAX_CONCURRENT_CHECKS, MAX_WAITING_CHECKS

SETTINGS = load_text(
    f"""
    [accounts.zbw]
    secret = "{hash_secret("open sesame")}"
    client_ids = ["zbw-*"]
    publish = ["asdi.zbw.>"]
    """,
    "node.toml",
)


class FakeThreads:
    """Runs calls for other threads on demand."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], bool], Deferred[bool]]] = []
        self.run = 0

    def defer(self, work: Callable[[], bool]) -> Deferred[bool]:
        done: Deferred[bool] = Deferred()
        self.waiting.append((work, done))
        return done

    def run_all(self) -> None:
        while self.waiting:
            work, done = self.waiting.pop(0)
            self.run += 1
            done.callback(work())


class AccountsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.threads = FakeThreads()
        self.authenticator = authenticator_for(Accounts(SETTINGS.accounts), self.threads.defer)

    def authenticate(
        self, client_id: str, account: str | None, secret: bytes | None
    ) -> Deferred[Identity]:
        login = self.authenticator.authenticate(client_id, account, secret)
        self.threads.run_all()
        return login

    def test_checks_of_ended_connections_are_dropped_unless_they_run(self) -> None:
        logins = [
            self.authenticator.authenticate("zbw-1", "zbw", b"open sesame")
            for _ in range(MAX_CONCURRENT_CHECKS + 2)
        ]
        for each in logins[:-1]:
            each.cancel()
            self.failureResultOf(each, CancelledError)
        # Those that run keep their slots.
        assert len(self.threads.waiting) == MAX_CONCURRENT_CHECKS
        self.threads.run_all()
        assert self.threads.run == MAX_CONCURRENT_CHECKS + 1
        assert self.successResultOf(logins[-1]).client_id == "zbw-1"

    def test_the_classes_implement_twisted_cred(self) -> None:
        accounts = Accounts(SETTINGS.accounts)
        verifyObject(IAuthenticator, self.authenticator)
        verifyObject(IRealm, AccountsRealm(accounts))
        verifyObject(ICredentialsChecker, SecretChecker(accounts, self.threads.defer))
        self.assertIsInstance(self.authenticator, PortalAuthenticator)

    def test_the_right_secret_gives_the_accounts_identity(self) -> None:
        identity = self.successResultOf(self.authenticate("zbw-1", "zbw", b"open sesame"))
        self.assertEqual((identity.account, identity.client_id), ("zbw", "zbw-1"))
        self.assertEqual(identity.clearance, SecurityLevel.MED)
        self.assertTrue(identity.rights.may_publish("asdi.zbw.tz"))
        self.assertFalse(identity.administer)

    def test_nothing_is_hashed_in_the_reactors_thread(self) -> None:
        login = self.authenticator.authenticate("zbw-1", "zbw", b"open sesame")
        self.assertNoResult(login)
        self.assertEqual(self.threads.run, 0)
        self.threads.run_all()
        self.successResultOf(login)

    def test_a_wrong_secret_and_an_unknown_account_look_alike_and_cost_alike(self) -> None:
        wrong = self.failureResultOf(self.authenticate("zbw-1", "zbw", b"guess"))
        hashed_for_wrong = self.threads.run
        unknown = self.failureResultOf(self.authenticate("zbw-1", "nobody", b"guess"))
        self.assertEqual(self.threads.run, 2 * hashed_for_wrong)
        wrong.trap(AuthenticationFailed)
        unknown.trap(AuthenticationFailed)
        self.assertEqual(wrong.getErrorMessage(), unknown.getErrorMessage())

    def test_a_missing_credential_is_refused(self) -> None:
        for account, secret in ((None, None), ("zbw", None), (None, b"open sesame")):
            login = self.authenticate("zbw-1", account, secret)
            self.failureResultOf(login, AuthenticationFailed)
        self.assertEqual(self.threads.run, 0)

    def test_an_account_that_is_removed_during_its_login_is_refused(self) -> None:
        accounts = Accounts(SETTINGS.accounts)
        login = authenticator_for(accounts, self.threads.defer).authenticate(
            "zbw-1", "zbw", b"open sesame"
        )
        accounts.replace({})
        self.threads.run_all()
        self.failureResultOf(login, AuthenticationFailed)

    def test_another_clients_id_is_refused_with_the_right_secret(self) -> None:
        login = self.authenticate("alice", "zbw", b"open sesame")
        self.failureResultOf(login, NotAllowed)

    def test_with_a_wrong_secret_nothing_is_said_about_the_client_id(self) -> None:
        login = self.authenticate("alice", "zbw", b"guess")
        self.failureResultOf(login, AuthenticationFailed)

    def test_an_impossible_client_id_is_refused_before_anything_is_hashed(self) -> None:
        self.failureResultOf(self.authenticate("../zbw", "zbw", b"open sesame"), BadName)
        self.assertEqual(self.threads.run, 0)

    def test_an_account_name_of_strange_bytes_is_an_unknown_account(self) -> None:
        checker = SecretChecker(Accounts(SETTINGS.accounts), self.threads.defer)
        checked = checker.requestAvatarId(UsernamePassword(b"\xff\xfe", b"guess"))
        self.threads.run_all()
        self.failureResultOf(checked, UnauthorizedLogin)
        self.failureResultOf(self.authenticate("zbw-1", "\ud800", b"guess"), AuthenticationFailed)

    def test_only_a_few_secrets_are_checked_at_once(self) -> None:
        logins = [self.authenticator.authenticate("zbw-1", "zbw", b"guess") for _ in range(5)]
        self.assertEqual(len(self.threads.waiting), MAX_CONCURRENT_CHECKS)
        self.threads.run_all()
        for login in logins:
            self.failureResultOf(login, AuthenticationFailed)

    def test_waiters_beyond_the_limit_get_an_error_and_the_others_are_served(self) -> None:
        logins = [
            self.authenticator.authenticate("zbw-1", "zbw", b"s" * 2000)
            for _ in range(MAX_CONCURRENT_CHECKS + MAX_WAITING_CHECKS)
        ]
        one_more = self.authenticator.authenticate("zbw-1", "zbw", b"open sesame")
        self.failureResultOf(one_more, Overloaded)
        self.threads.run_all()
        for login in logins:
            self.failureResultOf(login, AuthenticationFailed)

    def test_a_client_that_hangs_up_leaves_the_queue(self) -> None:
        held = [self.authenticator.authenticate("zbw-1", "zbw", b"guess") for _ in range(3)]
        held[-1].cancel()
        self.failureResultOf(held[-1])
        self.threads.run_all()
        self.assertEqual(self.threads.run, 2)
        for login in held[:-1]:
            self.failureResultOf(login, AuthenticationFailed)

    def test_the_realm_knows_no_other_avatar_than_an_identity(self) -> None:
        realm = AccountsRealm(Accounts(SETTINGS.accounts))
        with self.assertRaises(NotImplementedError):
            realm.requestAvatar(b"zbw", "zbw-1", IReactorTime)

    def test_the_realm_rejects_an_anonymous_avatar(self) -> None:
        realm = AccountsRealm(Accounts(SETTINGS.accounts))
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

        accounts = Accounts(SETTINGS.accounts)
        checker = SecretChecker(accounts, self.threads.defer)
        self.authenticator = PortalAuthenticator(Portal(OtherRealm(accounts), [checker]))
        login = self.authenticate("zbw-1", "zbw", b"open sesame")
        self.failureResultOf(login, TypeError)


class AnonymousAuthenticatorTests(SynchronousTestCase):
    def test_everyone_is_let_in(self) -> None:
        authenticator = authenticator_for(Accounts(), maybeDeferred)
        verifyObject(IAuthenticator, authenticator)
        self.assertIsInstance(authenticator, AnonymousAuthenticator)
        identity = self.successResultOf(authenticator.authenticate("someone", None, None))
        self.assertEqual((identity.account, identity.client_id), ("", "someone"))
        self.assertTrue(identity.administer)

    def test_an_impossible_client_id_is_refused(self) -> None:
        self.failureResultOf(AnonymousAuthenticator().authenticate("a b", None, None), BadName)
