"""Check of received events: none is forged, and none is unsigned where that is required."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

import attrs

from broker.errors import BadSignature
from broker.event.flow import origin_of
from broker.event.origin import is_signed_origin
from broker.event.place import Mark
from broker.event.placeholder import digest_of
from broker.signatures.leaf import EventFields
from broker.signatures.verification import ProofChecker


class ReceivedEvent(Protocol):
    """The parts of `LoggedEvent` and `CarriedEvent` that a proof covers."""

    @property
    def mark(self) -> Mark: ...
    @property
    def record(self) -> bytes: ...
    @property
    def document(self) -> bytes: ...


E_co = TypeVar("E_co", bound=ReceivedEvent, covariant=True)


@attrs.define
class SignatureCounts:
    signed: int = 0
    """Events that their origin has signed."""
    unsigned: int = 0
    """Events without a proof: of earlier versions, or own ones that have not left the node."""


def find_forged(
    flow: str,
    events: Iterable[E_co],
    *,
    must_sign: bool,
    may_be_unsigned: bool = False,
    counts: SignatureCounts | None = None,
    signed: list[EventFields] | None = None,
) -> Iterator[tuple[E_co, BadSignature]]:
    """Yield the events of a flow that its origin has not signed, each with the reason.

    Without `must_sign`, the events of a log pass whose name belongs to no key: earlier versions do
    not sign. With `may_be_unsigned` all events without a proof pass. A placeholder, by which a node
    has replaced the document, has the event's proof. `counts` counts the events that pass,
    and `signed` gets those that are signed.
    """
    counts = counts or SignatureCounts()
    origin = origin_of(flow)
    is_signed = is_signed_origin(origin)
    checker = ProofChecker(origin)
    for event in events:
        placed = None
        if is_signed:
            try:
                placed = checker.check(event.mark, event.record, digest_of(event.document))
            except BadSignature as error:
                yield event, error
                continue
        if placed is not None:
            counts.signed += 1
            if signed is not None:
                signed.append(placed)
            continue
        counts.unsigned += 1
        if not may_be_unsigned and (must_sign or is_signed):
            yield event, BadSignature(f"an event of the log {origin} is not signed")


def check_events(
    flow: str, events: Iterable[ReceivedEvent], *, must_sign: bool
) -> list[EventFields]:
    """Return the signed events. Raises `BadSignature` for the first forged event of a flow."""
    signed: list[EventFields] = []
    for _, error in find_forged(flow, events, must_sign=must_sign, signed=signed):
        raise error
    return signed
