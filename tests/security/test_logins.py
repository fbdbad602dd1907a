"""Logins over real sockets, by each kind of credential, and someone in between."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from broker.client import asyncio_face, twisted_face
from broker.client.client import Client
from broker.errors import (
    AuthenticationFailed,
    BrokerError,
    GaveUp,
    LoginExpired,
)
from broker.identity.secret import hash_secret
from tests.security.login_refusal import SECRET, expect
from tests.system.certificates import Certificate, make_certificate
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.test_cli import run_command
from tests.system.test_connections import run_with_asyncio
from tests.system.traffic import run_within

pytestmark = pytest.mark.system

ISSUER = "https://login.example.org"
SIGNER = ed25519.Ed25519PrivateKey.generate()
Connect = Callable[..., Client]


def digest_of_an_earlier_version() -> str:
    salt = os.urandom(16)
    digest = hashlib.scrypt(SECRET.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32)
    return "scrypt$16384$8$1$" + "$".join(
        base64.b64encode(each).decode() for each in (salt, digest)
    )


@attrs.frozen
class Secured:
    """A node with TLS, whose clients have an authority of their own."""

    node: NodeProcess
    folder: Path
    own: Certificate
    clients: Certificate

    @property
    def endpoint(self) -> str:
        return f"tls:localhost:{self.node.port}"

    def token(self, seconds: float) -> Path:
        claims = {"iss": ISSUER, "aud": "xmlbroker", "sub": "me", "exp": time.time() + seconds}
        file = self.folder / "token"
        file.write_text(jwt.encode(claims, SIGNER, "EdDSA", headers={"kid": "k"}))
        return file


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    own, clients = make_certificate(folder, "node"), make_certificate(folder, "authority")
    public = json.loads(jwt.get_algorithm_by_name("EdDSA").to_jwk(SIGNER.public_key()))
    (folder / "keys.json").write_text(json.dumps({"keys": [{**public, "kid": "k"}]}))
    configuration = f"""
[identity]
client_authority = "{clients.certificate}"
token_keys = "{folder / "keys.json"}"
token_issuer = "{ISSUER}"
token_audience = "xmlbroker"

[accounts.new]
secret = ["{hash_secret("the next one")}", "{hash_secret(SECRET)}"]

[accounts.stored]
secret = "{digest_of_an_earlier_version()}"

[accounts.display]
certificates = ["CN=display"]

[accounts.bearer]
tokens = ["{ISSUER}|me"]
"""
    endpoint = f"ssl:port={{port}}:interface=127.0.0.1:privateKey={own.key}:certKey="
    with NodeProcess(
        folder / "node", configuration, endpoint=endpoint + str(own.certificate)
    ) as node:
        yield Secured(node, folder, own, clients)
        node.stop()
        assert "Traceback" not in node.log()
        assert SECRET not in node.log()


async def check_logins(connect: Connect, secured: Secured) -> None:
    trust = secured.own.certificate
    for account in ("new", "stored"):
        client = connect(secured.endpoint, account=account, secret=SECRET, trust=trust)
        await client.when_connected(PATIENCE)
        await client.close()
        guess = connect(secured.endpoint, account=account, secret="guess", trust=trust)
        assert "wrong, or none was given" in await expect(AuthenticationFailed, guess)


async def check_certificates(connect: Connect, secured: Secured) -> None:
    trust = secured.own.certificate
    display = make_certificate(secured.folder, "display", secured.clients)
    # The CLI and the library take the key from either file.
    for files in (
        {"certificate": display.certificate, "key": display.key},
        {"certificate": display.write_combined()},
    ):
        client = connect(secured.endpoint, client_id="display", trust=trust, **files)
        await client.when_connected(PATIENCE)
        await client.close()
    stranger = make_certificate(secured.folder, "stranger", secured.clients)
    certificate = stranger.write_combined()
    client = connect(secured.endpoint, account="display", trust=trust, certificate=certificate)
    assert "CN=stranger" in await expect(AuthenticationFailed, client)
    certificate = display.write_combined()
    client = connect(secured.endpoint, account="new", trust=trust, certificate=certificate)
    assert await expect(BrokerError, client)
    forger = make_certificate(secured.folder, "forger")
    certificate = make_certificate(secured.folder, "display", forger).write_combined()
    client = connect(secured.endpoint, account="display", trust=trust, certificate=certificate)
    with pytest.raises(GaveUp):
        await client.when_connected(1.0)
    await client.close()


async def check_replaced_files(connect: Connect, secured: Secured) -> None:
    """A client goes on trying while its files are not usable."""
    display = make_certificate(secured.folder, "display", secured.clients)
    both = display.write_combined()
    client = connect(
        *("tls:localhost:1", secured.endpoint),
        client_id="display",
        trust=secured.own.certificate,
        certificate=both,
    )
    content = both.read_bytes()
    both.write_bytes(b"")
    with pytest.raises(GaveUp):
        await client.when_connected(0.5)
    both.write_bytes(content)
    await client.when_connected(PATIENCE)
    await client.close()


async def check_man_in_the_middle(connect: Connect, secured: Secured) -> None:
    """Relay between two TLS connections, with a certificate that the client trusts."""
    between = make_certificate(secured.folder, "between")
    trusted = secured.folder / "both.pem"
    trusted.write_bytes(between.certificate.read_bytes() + secured.own.certificate.read_bytes())
    accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    accepting.load_cert_chain(between.certificate, between.key)
    dialling = ssl.create_default_context(cafile=str(secured.own.certificate))
    seen = bytearray()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        out, back = await asyncio.open_connection("localhost", secured.node.port, ssl=dialling)

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(4096):
                seen.extend(data)
                sink.write(data)
            sink.close()

        await asyncio.gather(copy(reader, back), copy(out, writer), return_exceptions=True)

    server = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=accepting)
    endpoint = f"tls:localhost:{server.sockets[0].getsockname()[1]}"
    client = connect(endpoint, account="new", secret="the next one", trust=trusted)
    assert "bound to another connection" in await expect(AuthenticationFailed, client)
    assert seen and b"the next one" not in seen
    server.close()


def test_secrets_new_and_stored_by_earlier_versions_log_in(secured: Secured) -> None:
    run_with_asyncio(check_logins, secured)


def test_a_digest_in_the_file_of_accounts_is_replaced_after_a_login(tmp_path: Path) -> None:
    accounts = tmp_path / "accounts.toml"
    accounts.write_text(f'[accounts.alice]\nsecret = "{digest_of_an_earlier_version()}"\n')
    accounts.chmod(0o600)

    async def log_in(node: NodeProcess) -> None:
        client = asyncio_face.connect(node.endpoint, account="alice", secret=SECRET)
        await client.when_connected(PATIENCE)
        await client.close()

    with NodeProcess(tmp_path, '[identity]\naccounts_file = "accounts.toml"\n') as node:
        run_within(log_in(node))
        # The node ends after its threads.
        node.stop()
        text = accounts.read_text()
        assert "SCRAM-SHA-256$scrypt:16384:8:1:" in text and "$16384$8$1$" not in text
        assert accounts.stat().st_mode & 0o777 == 0o600
        node.start()
        run_within(log_in(node))
        assert "Traceback" not in node.log()


def test_the_command_line_logs_in_by_each_kind_of_credential(secured: Secured) -> None:
    display = make_certificate(secured.folder, "display", secured.clients)
    (secured.folder / "secret").write_text(SECRET)
    trust = ("--trust", str(secured.own.certificate))
    for options in (
        ("--account", "new", "--secret-file", str(secured.folder / "secret")),
        ("--client-id", "display", "--cert", str(display.certificate), "--key", str(display.key)),
        ("--account", "bearer", "--token-file", str(secured.token(600.0))),
    ):
        output, _ = run_command(
            secured.node, "dtd", "list", "--node", secured.endpoint, *options, *trust
        )
        assert "flight 1.1" in output


def test_a_certificate_logs_in_to_its_account_only(secured: Secured) -> None:
    run_with_asyncio(check_certificates, secured)


def test_files_of_a_client_may_be_replaced_while_it_runs(secured: Secured) -> None:
    run_with_asyncio(check_replaced_files, secured)


def test_someone_in_between_can_not_pass_a_login_on(secured: Secured) -> None:
    run_with_asyncio(check_man_in_the_middle, secured)


class TwistedFaceTests(TestCase):
    timeout = 60

    @pytest.fixture(autouse=True)
    def _use_node(self, secured: Secured) -> None:
        self.secured = secured

    def connect(self, *endpoints: str, **arguments: Any) -> Client:
        return twisted_face.connect(*endpoints, reactor=reactor, **arguments)

    async def test_secrets_new_and_stored_by_earlier_versions_log_in(self) -> None:
        await check_logins(self.connect, self.secured)

    async def test_a_certificate_logs_in_to_its_account_only(self) -> None:
        await check_certificates(self.connect, self.secured)
        await check_replaced_files(self.connect, self.secured)
        # Twisted passes certificates to pyOpenSSL in an earlier form.
        assert {each["category"] for each in self.flushWarnings()} <= {DeprecationWarning}


def test_a_session_ends_with_its_token_and_the_next_token_continues_it(secured: Secured) -> None:
    async def work() -> None:
        ended: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
        client = asyncio_face.connect(
            secured.endpoint,
            client_id="bearer",
            token_file=secured.token(3.0),
            trust=secured.own.certificate,
        )
        client.on_state = lambda up, error: None if up or ended.done() else ended.set_result(error)
        await client.when_connected(PATIENCE)
        secured.token(600.0)
        async with asyncio.timeout(PATIENCE):
            assert isinstance(await ended, LoginExpired)
        await client.when_connected(PATIENCE)
        await client.close()
        late = asyncio_face.connect(
            secured.endpoint,
            account="bearer",
            token_file=secured.token(-60.0),
            trust=secured.own.certificate,
        )
        assert "expired" in await expect(AuthenticationFailed, late)

    run_within(work())
