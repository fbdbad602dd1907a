"""SCRAM-SHA-256 (RFC 5802, RFC 7677): a login by secret that does not send the secret.

Both ends prove that they have the secret, or its stored form. Over TLS the proofs are bound to the
channel (RFC 5929, RFC 9266). Sans-I/O.
"""

from __future__ import annotations

from broker.scram.client import ClientExchange
from broker.scram.key_derivation import KeyDerivation
from broker.scram.keys import ClientKeys, StoredKeys
from broker.scram.node import ClientFirst, NodeExchange

__all__ = [
    "ClientExchange",
    "ClientFirst",
    "ClientKeys",
    "KeyDerivation",
    "NodeExchange",
    "StoredKeys",
]
