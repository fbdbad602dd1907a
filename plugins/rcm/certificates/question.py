"""Questions of clients about proofs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from broker.errors import ProtocolError
from broker.event.event_id import parse_identity
from plugins.rcm.certificates.site_certificates import SiteCertificates


def answer_question(
    certificates: SiteCertificates, question: Mapping[str, str], now: float
) -> object:
    """Return a proof as plain values; None if there is none.

    `event` is CLIENT/INCARNATION/NUMBER, `stamp` a stamp with an optional `tie`, `block` a stamp of
    a block, of which leaves from `first` on are shown. Raises `ProtocolError`.
    """
    try:
        if "event" in question:
            found: object = certificates.prove_event(*parse_identity(question["event"]), now)
        elif "stamp" in question:
            stamp, tie = int(question["stamp"]), question.get("tie", "")
            found = certificates.prove_stamp(stamp, tie, now)
        else:
            stamp, first = int(question["block"]), int(question.get("first", "0"))
            if first < 0:
                raise ValueError("first is below 0")
            found = certificates.show_block(stamp, first, now)
    except (ValueError, KeyError, OverflowError) as error:
        raise ProtocolError(f"a question about the order is malformed: {error}") from None
    return None if found is None else msgspec.to_builtins(found)
