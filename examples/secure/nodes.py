"""Nodes with TLS, accounts and audit logs, each a child process: one cluster, and others."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from broker.config.accounts_file import AccountsFile
from broker.config.toml import make_account
from broker.identity import hash_secret
from examples.free_ports import free_ports
from examples.network.nodes import NodeProcess
from examples.secure import forger
from examples.secure.certificates import Certificate, make_certificate

#: The first one founds the cluster.
NAMES: Final = ("a1", "a2", "a3")
#: Has the key of the network, but a certificate of another authority.
STRANGER: Final = "m1"
#: A member that changes events, and a node of another cluster behind it.
FORGER: Final = "m2"
NEIGHBOUR: Final = "b1"
#: Each is linked to the node before.
_OTHER_CLUSTERS: Final = {FORGER: ("plain", NAMES[0]), NEIGHBOUR: ("coast", FORGER)}
ACCOUNTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "feed": {"publish": ["flights.>"], "clearance": "high"},
    "analyst": {"subscribe": ["flights.>"], "clearance": "high"},
    "display": {"subscribe": ["flights.>"], "clearance": "low"},
    "admin": {"administer": True, "clearance": "high"},
}


@attrs.frozen
class Place:
    """Files and ports of one node."""

    folder: Path
    clients: int
    others: int


class SecureNodes:
    """The nodes, which do not run yet."""

    def __init__(self, folder: Path) -> None:
        """Make certificates, keys and accounts in the folder."""
        self.folder = folder
        self.authority = self._make_authority("authority")
        self._other_authority = self._make_authority("other")
        self.secrets = {name: f"secret of {name}" for name in ACCOUNTS}
        hashes = {name: hash_secret(secret) for name, secret in self.secrets.items()}
        self._accounts = {
            name: make_account(name, {"secret": hashes[name], **table})
            for name, table in ACCOUNTS.items()
        }
        names = (*NAMES, STRANGER, FORGER, NEIGHBOUR)
        free = iter(free_ports(2 * len(names)))
        self._places = {name: Place(folder / name, next(free), next(free)) for name in names}
        self._nodes = {name: self._make_node(name) for name in names}

    def __getitem__(self, name: str) -> NodeProcess:
        return self._nodes[name]

    @property
    def members(self) -> list[NodeProcess]:
        return [self._nodes[name] for name in NAMES]

    def endpoint(self, name: str) -> str:
        return f"tls:localhost:{self._places[name].clients}"

    def port(self, name: str) -> int:
        return self._places[name].clients

    def accounts(self, name: str) -> AccountsFile:
        """Return the file that `xmlbroker account` edits."""
        return AccountsFile(self._places[name].folder / "accounts.toml")

    def audit_log(self, name: str) -> Path:
        return self._places[name].folder / "audit.jsonl"

    def _make_authority(self, name: str) -> Certificate:
        folder = self.folder / name
        folder.mkdir(parents=True)
        return make_certificate(folder, name)

    def _make_node(self, name: str) -> NodeProcess:
        place = self._places[name]
        program = [forger.PROGRAM] if name == FORGER else []
        settings = self._settings(name, place)
        node = NodeProcess(name, place.folder, place.clients, settings, *program)
        issuer = self._other_authority if name == STRANGER else self.authority
        certificate = make_certificate(place.folder, name, issuer)
        certificate.write_combined()
        for path in place.folder.glob("*.pem"):
            path.chmod(0o600)
        shutil.copy(issuer.certificate, place.folder / "authority.pem")
        key = place.folder / "network.key"
        key.touch(0o600)
        key.write_text("the key that all nodes of this example share\n")
        with self.accounts(name).change() as accounts:
            accounts.update(self._accounts)
        return node

    def _settings(self, name: str, place: Place) -> str:
        founder = self._places[NAMES[0]]
        is_founder = name == NAMES[0]
        join = 'cluster = "alps"' if is_founder else f'join = ["127.0.0.1:{founder.others}"]'
        if name in _OTHER_CLUSTERS:
            cluster, gateway = _OTHER_CLUSTERS[name]
            port = self._places[gateway].others
            join = f'cluster = "{cluster}"\ngateways = ["tcp:127.0.0.1:{port}"]'
        return (
            f'[node]\nname = "{name}"\ndata = "{place.folder / "data"}"\n'
            f'[listen]\nendpoints = ["ssl:port={place.clients}:interface=127.0.0.1:'
            f'privateKey={name}-key.pem:certKey={name}.pem"]\n'
            '[identity]\naccounts_file = "accounts.toml"\n'
            '[audit]\nfile = "audit.jsonl"\n'
            f'[network]\nname = "secure"\n{join}\n'
            f'listen = ["tcp:port={place.others}:interface=127.0.0.1"]\n'
            'key_file = "network.key"\n'
            f'certificate = "{name}.both.pem"\nauthority = "authority.pem"\n'
            "[archive]\nenabled = false\n"
        )
