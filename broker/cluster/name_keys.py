"""Keys of nodes' names, by the settings and by what earlier processes have stored."""

from __future__ import annotations

from broker.audit import IAuditLog
from broker.cluster.map.name_bindings import STORED, NameBindings
from broker.cluster.signature_check import SignatureCheck
from broker.config import Settings
from broker.errors import ProtocolError
from broker.log.event_log import EventLog
from broker.signatures.node_key import read_public_keys


def build_bindings(
    settings: Settings, event_log: EventLog, signatures: SignatureCheck, audit: IAuditLog
) -> NameBindings:
    """Raises `ConfigurationError` for another key of this node in `network.public_keys`."""
    network, own = settings.network, settings.node.name
    configured = read_public_keys(network.public_keys, own, event_log.signing_key)
    kept = None
    if network.keep_keys:
        stored = event_log.statements((STORED,))
        # This node may have another key since then.
        kept = {name: key for (_, name), key in stored.items() if name != own}

    def rejected(name: str, error: ProtocolError) -> None:
        signatures.record_rejected(name, error)
        audit.record("node-key", subject=name, error=error)

    return NameBindings(
        configured, rejected, kept, lambda name, key: event_log.put_statement(STORED, name, key)
    )
