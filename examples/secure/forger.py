"""A node of the network that changes the events of other nodes on their way."""

from __future__ import annotations

import sys
from typing import Final

from twisted.scripts.twistd import run

from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.version import PROOF_VERSION

#: Run by Python in place of twistd.
PROGRAM: Final = "from examples.secure.forger import run_forger; run_forger()"
ORIGINAL: Final = b"UAL1021"
FORGED: Final = b"UAL9999"


def run_forger() -> None:
    """Run twistd with a node whose frames are forged."""
    encode = Frame.encode

    def encode_forged(frame: Frame, version: int = PROOF_VERSION) -> bytes:
        documents = enumerate(frame.documents() if frame.event_count else ())
        changed = {i: each.replace(ORIGINAL, FORGED) for i, each in documents}
        return encode(frame.replace_documents(changed), version)

    Frame.encode = encode_forged  # type: ignore[method-assign, assignment]
    sys.argv[0] = "twistd"
    run()
