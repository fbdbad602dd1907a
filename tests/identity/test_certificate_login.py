"""Logins by certificate and by token, and the end of a login by an earlier digest."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import time
from pathlib import Path

import attrs
import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from twisted.cred.error import UnauthorizedLogin
from twisted.internet.defer import Deferred

from broker.config import load_text
from broker.config.identity import IdentitySettings
from broker.errors import AuthenticationFailed
from broker.identity import (
    Accounts,
    AccountsRealm,
    IIdentity,
    Login,
    LoginOffer,
    accounts_by_name,
    authenticator_for,
)
from broker.identity.certificate_names import read_names
from broker.scram.mechanism import CERTIFICATE, SCRAM, TOKEN
from tests.identity.login_ends import PLAIN, FakeChannel, SecretLogin
from tests.identity.test_login import LoginTestCase, never_asked

KEY = ec.generate_private_key(ec.SECP256R1())
ISSUER = "https://login.example.org"
END = datetime.datetime(2030, 1, 2, tzinfo=datetime.UTC)
ALTERNATIVES = x509.SubjectAlternativeName(
    [
        x509.DNSName("Radar.example.org"),
        x509.UniformResourceIdentifier("urn:radar:1"),
        x509.RFC822Name("ops@example.org"),
    ]
)


def certificate(subject: str, alternatives: x509.SubjectAlternativeName | None = None) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(END - datetime.timedelta(days=900))
        .not_valid_after(END)
    )
    if alternatives is not None:
        builder = builder.add_extension(alternatives, critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


def digest_of(secret: bytes) -> str:
    """Return the digest of an earlier version."""
    digest = hashlib.scrypt(secret, salt=b"s" * 16, n=2**14, r=8, p=1, dklen=32)
    texts = (base64.b64encode(each).decode() for each in (b"s" * 16, digest))
    return "scrypt$16384$8$1$" + "$".join(texts)


IDENTITY = f"""
    [listen]
    endpoints = ["ssl:7000:privateKey=key.pem:certKey=certificate.pem"]

    [identity]
    client_authority = "authority.pem"
    token_keys = "keys.json"
    token_issuer = "{ISSUER}"
    token_audience = "xmlbroker"
"""
ACCOUNTS = load_text(
    f"""
    {IDENTITY}
    [accounts.subject]
    certificates = ["CN=one"]
    client_ids = ["c"]

    [accounts.alternative]
    certificates = ["DNS:radar.example.org"]
    client_ids = ["c"]

    [accounts.bearer]
    tokens = ["{ISSUER}|alice"]
    client_ids = ["c"]

    [accounts.earlier]
    secret = "{digest_of(b"old")}"
    client_ids = ["c"]
    """,
    "node.toml",
).accounts


def test_a_certificate_has_a_subject_names_and_an_end() -> None:
    names, end = read_names(certificate("one", ALTERNATIVES))
    others = ["dns:radar.example.org", "URI:urn:radar:1", "email:ops@example.org"]
    assert names == ["CN=one", *others] and end == END.timestamp()
    assert read_names(certificate("one")) == (["CN=one"], END.timestamp())


class CredentialTestCase(LoginTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.accounts = Accounts(ACCOUNTS)
        self.keys = Path(self.mktemp())
        self.keys.write_text(json.dumps({"keys": [self.jwk()]}))
        self.identity = IdentitySettings(
            token_keys=self.keys, token_issuer=ISSUER, token_audience="xmlbroker"
        )
        self.create()

    def create(self) -> None:
        settings = attrs.evolve(self.settings, identity=self.identity)
        self.authenticator = authenticator_for(self.accounts, settings, self.threads.defer)

    def jwk(self) -> dict[str, str]:
        made = json.loads(jwt.get_algorithm_by_name("ES256").to_jwk(KEY.public_key()))
        return {**made, "kid": "one"}

    def log_in(
        self, mechanism: str, data: bytes, channel: FakeChannel, account: str = ""
    ) -> Deferred[Login]:
        offer = LoginOffer("c", channel, account, mechanism, data)
        return self.authenticator.authenticate(offer, never_asked)

    def by_certificate(self, certificate: bytes | None, account: str = "") -> Deferred[Login]:
        channel = FakeChannel(secure=True, certificate=certificate)
        return self.log_in(CERTIFICATE, b"", channel, account)

    def by_token(
        self, subject: str, channel: FakeChannel = PLAIN, account: str = ""
    ) -> Deferred[Login]:
        self.end = int(time.time()) + 600
        claims = {"iss": ISSUER, "aud": "xmlbroker", "sub": subject, "exp": self.end}
        token = jwt.encode(claims, KEY, "ES256", headers={"kid": "one"})
        return self.log_in(TOKEN, token.encode(), channel, account)


class CertificateTests(CredentialTestCase):
    def test_each_name_of_a_certificate_may_be_that_of_an_account(self) -> None:
        for made, account in (
            (certificate("one"), "subject"),
            (certificate("other", ALTERNATIVES), "alternative"),
        ):
            login = self.successResultOf(self.by_certificate(made, account))
            self.assertEqual(login.identity.account, account)
            self.assertEqual(login.expires_at, END.timestamp())

    def test_unknown_and_missing_certificates_are_refused(self) -> None:
        for made, reason in ((certificate("three"), "no account has"), (None, "no certificate")):
            text = self.refusal(self.by_certificate(made), AuthenticationFailed)
            self.assertIn(reason, text)

    def test_a_credential_of_another_account_is_refused(self) -> None:
        for login in (
            self.by_certificate(certificate("one"), "alternative"),
            self.by_token("alice", account="subject"),
        ):
            self.assertIn("another account", self.refusal(login, AuthenticationFailed))

    def test_later_logins_use_replaced_accounts(self) -> None:
        text = f'[accounts.later]\ncertificates = ["CN=three"]\ntokens = ["{ISSUER}|bob"]\n'
        text += 'client_ids = ["c"]\n'
        self.accounts.replace(accounts_by_name(load_text(IDENTITY + text, "node.toml").accounts))
        for login in (self.by_certificate(certificate("three")), self.by_token("bob")):
            self.assertEqual(self.successResultOf(login).identity.account, "later")
        for login in (self.by_certificate(certificate("one")), self.by_token("alice")):
            self.refusal(login, AuthenticationFailed)


class TokenTests(CredentialTestCase):
    def test_a_token_of_an_account_logs_in_until_it_ends(self) -> None:
        login = self.successResultOf(self.by_token("alice"))
        self.assertEqual((login.identity.account, login.expires_at), ("bearer", self.end))

    def test_a_token_of_no_account_is_refused(self) -> None:
        text = self.refusal(self.by_token("mallory"), AuthenticationFailed)
        self.assertIn(f"no account has the token {ISSUER}|mallory", text)

    def test_a_token_never_goes_over_clear_text(self) -> None:
        channel = FakeChannel(confidential=False)
        text = self.refusal(self.by_token("alice", channel), AuthenticationFailed)
        self.assertIn("a token needs TLS", text)

    def test_keys_are_loaded_again(self) -> None:
        self.assertTrue(self.authenticator.load_keys()())
        self.identity = IdentitySettings()
        self.create()
        self.assertFalse(self.authenticator.load_keys()())
        text = self.refusal(self.by_token("alice"), AuthenticationFailed)
        self.assertIn("takes no tokens", text)


class DigestTests(CredentialTestCase):
    def log_in_by_digest(self) -> None:
        login = SecretLogin("earlier", b"old").start(self.authenticator, "c")
        self.assertEqual(self.successResultOf(login).identity.account, "earlier")

    def test_a_login_with_an_earlier_digest_rewrites_the_file_of_accounts(self) -> None:
        self.log_in_by_digest()
        self.assertEqual(self.threads.waiting, [])
        self.identity = IdentitySettings(accounts_file=Path(self.mktemp()))
        self.create()
        self.log_in_by_digest()
        self.log_in_by_digest()
        self.assertEqual(len(self.threads.waiting), 1)
        # A reload may bring further digests.
        self.accounts.replace(accounts_by_name(ACCOUNTS))
        self.log_in_by_digest()
        self.assertEqual(len(self.threads.waiting), 2)

    def test_other_secrets_rewrite_nothing(self) -> None:
        login = LoginTestCase("setUp")
        login.setUp()
        login.settings = attrs.evolve(
            login.settings, identity=IdentitySettings(accounts_file=Path(self.mktemp()))
        )
        authenticator = authenticator_for(login.accounts, login.settings, login.threads.defer)
        self.successResultOf(SecretLogin("zbw", b"open sesame").start(authenticator, "zbw-1"))
        self.assertEqual(login.threads.waiting, [])

    def test_a_login_by_secret_over_tls_needs_a_binding(self) -> None:
        client = SecretLogin("earlier", b"old")
        channel = FakeChannel(secure=True, binding=b"keys")
        offer = LoginOffer("c", channel, "earlier", SCRAM, client.exchange.first)
        login = self.authenticator.authenticate(offer, never_asked)
        self.assertIn("needs a channel binding", self.refusal(login, AuthenticationFailed))

    def test_an_account_that_is_removed_during_its_login_is_refused(self) -> None:
        with self.assertRaises(UnauthorizedLogin):
            AccountsRealm(self.accounts).requestAvatar(b"removed", "c", IIdentity)
