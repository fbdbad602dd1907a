"""Both ends of a login, without connection and threads."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from broker.identity import IAuthenticator, Login, LoginOffer
from broker.scram import ClientExchange, ClientKeys
from broker.scram.mechanism import SCRAM
from broker.transport.socket.contract import ITlsChannel
from tests.transport.recording import RecordingChannel


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


@implementer(ITlsChannel)
class FakeChannel(RecordingChannel):
    """The security of a connection; `binding` is the data of both kinds of channel binding."""

    def __init__(
        self,
        *,
        secure: bool = False,
        confidential: bool = True,
        binding: bytes | None = None,
        certificate: bytes | None = None,
    ) -> None:
        super().__init__()
        self.secure = secure
        self.confidential = confidential
        self.binding = binding
        self.certificate = certificate

    binding_kind = "tls-exporter"

    def binding_data(self, kind: str) -> bytes | None:
        return self.binding

    def peer_certificate(self) -> bytes | None:
        return self.certificate


PLAIN = FakeChannel()


class SecretLogin:
    """A client that answers challenges."""

    def __init__(self, account: str, secret: bytes, binding: str = "", data: bytes = b"") -> None:
        self.account = account
        self.exchange = ClientExchange(account, binding)
        self.challenges: list[bytes] = []
        self._secret = secret
        self._data = data

    def answer(self, challenge: bytes) -> Deferred[bytes]:
        self.challenges.append(challenge)
        derivation = self.exchange.read_challenge(challenge)
        keys = ClientKeys.from_salted(derivation.derive(self._secret))
        return succeed(self.exchange.respond(keys, self._data))

    def start(
        self, authenticator: IAuthenticator, client_id: str, channel: FakeChannel = PLAIN
    ) -> Deferred[Login]:
        offer = LoginOffer(client_id, channel, self.account, SCRAM, self.exchange.first)
        return authenticator.authenticate(offer, self.answer)
