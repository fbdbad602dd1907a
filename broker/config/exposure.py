"""Warnings at the start of a node about settings and file modes that expose events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.config.endpoints import is_encrypted_endpoint, is_loopback_endpoint
from broker.config.network import NetworkSettings
from broker.config.settings import Settings
from broker.event.envelope import CLEARTEXT_LEVEL, SecurityLevel
from broker.private_files import find_wider_mode
from broker.transport.socket.loopback import LOOPBACK_INTERFACES, is_loopback_address

#: Names of accounts in one warning.
MOST_SHOWN: Final = 10


def find_exposures(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each such setting."""
    for endpoint in settings.listen.endpoints:
        if not (is_loopback_endpoint(endpoint) or is_encrypted_endpoint(endpoint)):
            yield (
                f"listen.allow_cleartext: logins of clients, and events up to "
                f"{CLEARTEXT_LEVEL.value}, cross the network in clear text at {endpoint}"
            )
    metrics = settings.metrics.endpoint
    if metrics and not is_loopback_endpoint(metrics):
        yield (
            f"metrics.endpoint: whoever reaches {metrics} reads figures of events of all levels, "
            "with names of event types and nodes"
        )
    network = settings.network
    level = network.cleartext_clearance
    if _has_links_in_cleartext(network):
        yield (
            f"events up to {min(level, CLEARTEXT_LEVEL).value} cross links to other nodes in clear "
            "text: set network.certificate, use TCP, or lower network.cleartext_clearance"
        )
    if level > CLEARTEXT_LEVEL:
        yield (
            f"network.cleartext_clearance is {level.value}: events of that level cross links in "
            f"clear text, {level.value} only within this machine"
        )
    for account in settings.accounts:
        if account.administer and account.clearance < SecurityLevel.HIGH:
            yield (
                f"the account {account.name} may administer the node: its figures count events "
                f"of all levels, beyond its clearance {account.clearance.value}"
            )
    digests = [
        account.name
        for account in settings.accounts
        if any(secret.is_digest for secret in account.secret)
    ]
    if digests:
        names = ", ".join(digests[:MOST_SHOWN]) + ("..." if len(digests) > MOST_SHOWN else "")
        yield (
            f"accounts have hashes of an earlier version, with which a thief can log in: {names}; "
            "a login replaces those in identity.accounts_file, replace others by hand"
        )


def find_wider_folders(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each folder of the node that others on the machine can reach."""
    data = settings.node.data
    found = [find_wider_mode(data)]
    location = settings.archive.location.removeprefix("file://")
    if settings.archive.enabled and location and "://" not in location:
        found.append(find_wider_mode(Path(location), settings.archive.umask))
    yield from filter(None, found)


def _has_links_in_cleartext(network: NetworkSettings) -> bool:
    """Return whether links to nodes on other machines are not encrypted."""
    if network.udp and not is_loopback_address(network.udp):
        return True
    if network.group and network.group_interface not in LOOPBACK_INTERFACES:
        return True
    if network.certificate is not None:
        return False
    encrypted_gateways = all(map(is_encrypted_endpoint, network.gateways))
    return not (
        encrypted_gateways
        and all(map(is_loopback_address, network.join))
        and all(is_loopback_endpoint(e) or is_encrypted_endpoint(e) for e in network.listen)
    )
