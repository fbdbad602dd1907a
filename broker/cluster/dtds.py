"""DTDs from the node whose events need them (Mspaces M14): asked once, however many wait."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred, fail
from zope.interface import implementer

from broker.channel.clock import IClock
from broker.cluster.address import Address
from broker.cluster.flows.frame import MAX_HOPS
from broker.cluster.flows.messages import AskDtd, Routed, TellDtd
from broker.dtd.hint import FetchHint
from broker.dtd.interfaces import IDtd, IDtdSource
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError, PeerSilent, UnknownType, from_wire
from broker.session.messages import NO_ERROR

#: Seconds that another node has to answer.
TIMEOUT = 5.0
#: Questions under way; the cache asks for each type once.
MOST_ASKED = 256


@implementer(IDtdSource)
class NeighbourDtds:
    """Asks the node that a hint names, and answers others out of the own cache."""

    name = "the node that sent the event"

    def __init__(self, clock: IClock) -> None:
        self._clock = clock
        self._own: Callable[[], Address | None] = lambda: None
        self._send: Callable[[Routed], object] = lambda _: None
        self._get: Callable[[DtdReference], IDtd | None] = lambda _: None
        self._waiting: dict[DtdReference, Deferred[bytes]] = {}
        self.asked = 0
        self.answered = 0

    def ask_by(self, send: Callable[[Routed], object]) -> None:
        """How messages are sent."""
        self._send = send

    def answer_from(
        self, own: Callable[[], Address | None], get: Callable[[DtdReference], IDtd | None]
    ) -> None:
        """What the own address is, and what is cached here."""
        self._own, self._get = own, get

    def fetch(self, reference: DtdReference, hint: FetchHint) -> Deferred[bytes]:
        """The text, from the node that sent the event. Fails with `UnknownType` otherwise."""
        own = self._own()
        if own is None or not isinstance(hint.link, Address) or reference in self._waiting:
            return fail(UnknownType("there is none to be asked"))
        if len(self._waiting) >= MOST_ASKED:
            return fail(UnknownType("too many are asked for already"))
        found: Deferred[bytes] = Deferred()
        self._waiting[reference] = found
        self.asked += 1
        late = PeerSilent(f"{hint.link} did not answer in {TIMEOUT:g} seconds")
        timer = self._clock.callLater(TIMEOUT, self._settle, reference, late)

        def settled(result: object) -> object:
            if timer.active():
                timer.cancel()
            return result

        self._send(AskDtd(hint.link, own, MAX_HOPS, reference.type, reference.version))
        return found.addBoth(settled)

    def told(self, message: AskDtd | TellDtd) -> None:
        """A question or an answer of another node."""
        reference = DtdReference(message.type, message.version)
        if isinstance(message, TellDtd):
            error = from_wire(message.error) if message.error[0] else None
            self._settle(reference, error or message.text)
            return
        own, dtd = self._own(), self._get(reference)
        if own is None:
            return
        self.answered += 1
        said = (reference.type, reference.version)
        if dtd is None:
            unknown = UnknownType(f"{own} has no DTD for {reference}")
            self._send(TellDtd(message.source, own, MAX_HOPS, *said, unknown.to_wire(), b""))
        else:
            self._send(TellDtd(message.source, own, MAX_HOPS, *said, NO_ERROR, dtd.text))

    def _settle(self, reference: DtdReference, result: bytes | BrokerError) -> None:
        found = self._waiting.pop(reference, None)
        if found is None:
            return
        if isinstance(result, BrokerError):
            found.errback(UnknownType(str(result)))
        else:
            found.callback(result)
