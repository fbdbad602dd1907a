"""Options of every command that connects to a node: address, account, client."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import attrs
import click

from broker.cli.failure import Failure
from broker.cli.stop_signal import Stop
from broker.cli.terminal import one_line, print_note
from broker.errors import GaveUp

if TYPE_CHECKING:
    from broker.client.client import Client

DEFAULT_PORT: Final = 8765
DEFAULT_NODE: Final = f"tcp:127.0.0.1:{DEFAULT_PORT}"
#: Seconds for the node's last commit.
CLOSE_TIMEOUT: Final = 5.0
_MAX_SECRET_BYTES: Final = 1024

_F = TypeVar("_F", bound=Callable[..., Any])


class ClientFactory(Protocol):
    """`broker.client.asyncio_face.connect`, or a fake."""

    def __call__(
        self,
        *endpoints: str,
        client_id: str,
        account: str,
        secret: str,
        state: Path | None,
        allow_cleartext: bool,
        **files: Path | None,
    ) -> Client: ...


@attrs.frozen
class NodeAccess:
    endpoints: tuple[str, ...]
    account: str
    secret: str = attrs.field(repr=False)
    client_id: str
    state: Path | None
    timeout: float
    """Seconds without a connection after which a command gives up."""
    connect: ClientFactory
    allow_cleartext: bool = False
    files: Mapping[str, Path | None] = attrs.field(factory=dict)
    """Files of `connect`: `trust`, `certificate`, `key` and `token_file`."""
    answered: list[str] = attrs.field(factory=list)
    """Questions with an answer, which may be malformed."""

    def make_client(self) -> Client:
        """Call this where an asyncio loop runs."""
        return self.connect(
            *self.endpoints,
            client_id=self.client_id,
            account=self.account,
            secret=self.secret,
            state=self.state,
            allow_cleartext=self.allow_cleartext,
            **self.files,
        )

    @contextlib.asynccontextmanager
    async def session(self, stop: Stop) -> AsyncIterator[Client]:
        """Yield a connected client, unless `stop` came first. Raises `GaveUp`, or a fatal error."""
        client = self.make_client()
        try:
            await stop.run_or_cancel(client.when_connected(self.timeout))
            yield client
        finally:
            if not await client.close(CLOSE_TIMEOUT):
                print_note("the node did not confirm the last position: some events may come again")

    def ask(self, what: str, document: bytes = b"", /, **arguments: str) -> Any:
        """Raises `GaveUp` after the timeout."""
        return asyncio.run(self._ask(what, document, arguments))

    async def _ask(self, what: str, document: bytes, arguments: dict[str, str]) -> Any:
        async with self.session(Stop()) as client:
            return await self.ask_with(client, what, document, **arguments)

    async def ask_with(
        self, client: Client, what: str, document: bytes = b"", /, **arguments: str
    ) -> Any:
        """Ask in a session. Raises `GaveUp` after the timeout."""
        try:
            answer = await asyncio.wait_for(client.ask(what, document, **arguments), self.timeout)
        except TimeoutError:
            raise GaveUp(f"the node did not answer in {self.timeout:g} s") from None
        self.answered.append(what)
        return answer


def node_options(command: _F) -> _F:
    """Give a command the common options; it gets `access`, a `NodeAccess`."""

    @functools.wraps(command)
    def with_access(
        *args: Any,
        node: tuple[str, ...],
        account: str,
        secret_file: Path | None,
        client_id: str,
        state: Path | None,
        timeout: float,
        allow_cleartext: bool,
        trust: Path | None,
        certificate: Path | None,
        key: Path | None,
        token_file: Path | None,
        **kwargs: Any,
    ) -> Any:
        for endpoint in node:
            check_address(endpoint)
        files = {"trust": trust, "certificate": certificate, "key": key, "token_file": token_file}
        access = NodeAccess(
            endpoints=node,
            account=account,
            secret=read_secret(secret_file),
            client_id=client_id,
            state=state,
            timeout=timeout,
            connect=click.get_current_context().find_root().obj or _connect,
            allow_cleartext=allow_cleartext,
            files={name: file for name, file in files.items() if file is not None},
        )
        try:
            return command(*args, access=access, **kwargs)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            if not access.answered:
                raise
            # Answers have no schema, and a node may have another version, or be false.
            raise Failure(one_line(f"the node's answer can not be read: {error!r}")) from error

    for option in reversed(_OPTIONS):
        with_access = option(with_access)
    return with_access  # type: ignore[return-value]


def check_address(endpoint: str) -> None:
    if endpoint.startswith("unix:"):
        return
    from broker.client.address import parse_address

    try:
        parse_address(endpoint)
    except ValueError as error:
        close = ""
        if "/" not in endpoint and endpoint.count(":") < 2 and not endpoint.startswith("t"):
            host, _, port = endpoint.partition(":")
            close = f", such as tcp:{host}:{port or DEFAULT_PORT}"
        raise click.BadParameter(f"{endpoint!r}: {error}{close}", param_hint="'--node'") from None


def _file_option(option: str, name: str, text: str) -> Callable[[_F], _F]:
    variable = f"XMLBROKER_{option[2:].upper().replace('-', '_')}"
    return click.option(
        option,
        name,
        type=click.Path(path_type=Path),
        envvar=variable,
        metavar="FILE",
        help=f"{text}  [env: {variable}]",
    )


_OPTIONS: Final = (
    click.option(
        "--node",
        multiple=True,
        default=(DEFAULT_NODE,),
        envvar="XMLBROKER_NODE",
        metavar="ENDPOINT",
        help="The node: tcp:HOST:PORT, tls:HOST:PORT or unix:PATH; repeat it for "
        f"alternatives.  [default: {DEFAULT_NODE}; env: XMLBROKER_NODE]",
    ),
    click.option(
        "--account",
        default="",
        envvar="XMLBROKER_ACCOUNT",
        help="The account's name.  [env: XMLBROKER_ACCOUNT]",
    ),
    click.option(
        "--secret-file",
        type=click.Path(path_type=Path),
        envvar="XMLBROKER_SECRET_FILE",
        metavar="FILE",
        help="A file with the secret in its first line; or set XMLBROKER_SECRET to the secret.",
    ),
    _file_option(
        "--token-file",
        "token_file",
        "A file with a bearer token, read at each login instead of a secret.",
    ),
    _file_option(
        "--cert",
        "certificate",
        "A PEM file with this client's certificate for tls:HOST:PORT; without a secret or a token "
        "it is the login.",
    ),
    _file_option(
        "--key",
        "key",
        "A PEM file with the certificate's private key, if it is not in the file of --cert.",
    ),
    _file_option(
        "--trust",
        "trust",
        "A PEM file with the authorities of nodes for tls:HOST:PORT, instead of the system's.",
    ),
    click.option(
        "--allow-cleartext",
        is_flag=True,
        help="Log in at another machine without TLS too.",
    ),
    click.option(
        "--client-id",
        default="",
        help="The ClientId of this process.  [default: the account's name, else a random one]",
    ),
    click.option(
        "--state",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Folder of the client's incarnation and positions, for a fixed --client-id.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="Give up after this time without a connection.",
    ),
)


def read_secret(file: Path | None) -> str:
    if file is None:
        return os.environ.get("XMLBROKER_SECRET", "")
    try:
        with open(file, "rb") as opened:
            line = opened.readline(_MAX_SECRET_BYTES + 2)
        return line.rstrip(b"\r\n").decode()
    except OSError as error:
        raise Failure(f"the secret can not be read from {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Failure(f"the secret in {file} is not a text in UTF-8") from None


def _connect(*endpoints: str, **options: Any) -> Client:
    from broker.client.asyncio_face import connect

    return connect(*endpoints, **options)
