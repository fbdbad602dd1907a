"""The owner of a link: it gives the bytes that both ends exchange before a peer is connected."""

from __future__ import annotations

from zope.interface import Attribute, Interface


class ILinkOwner(Interface):
    """Owner of one link. Its methods are called while a layer runs.

    They may send on the links, but must not change them. A raised `BrokerError` ends the
    connection. `now` is monotonic time in seconds.
    """

    def read_site_clock(now: float) -> int:
        """Return the time of this site in microseconds. It never steps back."""

    def make_offer(now: float) -> bytes:
        """Return this end's offer, at most `wire.MAX_OFFER_BYTES`."""

    def answer_offer(offer: bytes, now: float) -> bytes | None:
        """Return the answer to the peer's offer, or None to be called again after a short time.

        Raises `ProtocolError` or `VersionMismatch` for an impossible offer.
        """

    def accept_answer(answer: bytes, now: float) -> bool:
        """Handle the answer to an offer.

        Return True to count the peer as connected from this call on, or False for another offer
        after a short time. Raises `ProtocolError` for an impossible answer.
        """


class ILinkOwners(Interface):
    """A receiver of links that owns them."""

    incarnation: int = Attribute(
        "number of this start of the site, from 1 to 2**40 - 1: persisted, it rises with each start"
    )

    def own_link(node: str) -> ILinkOwner:
        """Return the owner of a new link to the node with a proven name.

        It may be called again before the link is made: the last result counts. Raises
        `BrokerError` to refuse the node.
        """
