"""Layout of the soak's network: six nodes in three clusters, settings and accounts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from broker.identity.secret import hash_secret

#: The first node founds its cluster; the others join it.
CLUSTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "alps": ("a1", "a2", "a3"),
    "coast": ("c1", "c2"),
    "plain": ("p1",),
}
#: By UDP, without relays.
UDP_CLUSTER: Final = "coast"
#: The dialling node, and the dialled one.
GATEWAYS: Final[Mapping[str, str]] = {"c1": "a2", "c2": "a3", "p1": "c1"}
NAMES: Final = tuple(name for names in CLUSTERS.values() for name in names)
#: From the pointers of events.
DTD_FETCHING_NODES: Final = ("a1", "c1")
SECRET: Final = "soak"
ACCOUNTS: Final[Mapping[str, str]] = {"low": "low", "med": "med", "high": "high"}


@attrs.frozen
class Ports:
    clients: int
    nodes: int
    relay: int
    """Other nodes connect there."""


@attrs.frozen
class Layout:
    """Folders and ports of one run."""

    folder: Path
    ports: Mapping[str, Ports]
    dtd_port: int
    secret_hash: str = attrs.field(factory=lambda: hash_secret(SECRET))

    def endpoint(self, name: str) -> str:
        return f"tcp:127.0.0.1:{self.ports[name].clients}"

    def data(self, name: str) -> Path:
        """The folder outlives the process."""
        return self.folder / name / "data"

    @property
    def archive(self) -> Path:
        return self.folder / "archive"

    def settings(self, name: str, faults: str = "") -> str:
        """`faults` are `[[faults]]` tables."""
        ports = self.ports[name]
        pointers = [f"http://127.0.0.1:{self.dtd_port}/"] if name in DTD_FETCHING_NODES else []
        return (
            f'[node]\nname = "{name}"\ndata = "{self.data(name)}"\n'
            f'[listen]\nendpoints = ["tcp:port={ports.clients}:interface=127.0.0.1"]\n'
            f'[log]\nmax_bytes = "16MiB"\n'
            f"[types]\npointers = {pointers}\n"
            f'[archive]\nlocation = "{self.archive}"\nevery = "1s"\n'
            '[recovery]\nengine = "local"\ngap_timeout = "30s"\n'
            '[streams."safe.>"]\nacknowledge = "neighbour"\n'
            f"{self._network(name)}{self._accounts()}{faults}"
        )

    def _network(self, name: str) -> str:
        cluster = next(each for each, names in CLUSTERS.items() if name in names)
        founder = CLUSTERS[cluster][0]
        joining = f'cluster = "{cluster}"\n'
        by_udp = cluster == UDP_CLUSTER
        if name != founder:
            port = self.ports[founder].nodes if by_udp else self.ports[founder].relay
            joining = f'join = ["127.0.0.1:{port}"]\n'
        if by_udp:
            joining += f'udp = "127.0.0.1:{self.ports[name].nodes}"\ntransport = "udp"\n'
        gateway = ""
        if name in GATEWAYS:
            relay = self.ports[GATEWAYS[name]].relay
            gateway = f'gateways = ["tcp:host=127.0.0.1:port={relay}"]\n'
        return (
            f'[network]\nname = "soak"\n{joining}{gateway}'
            f'listen = ["tcp:port={self.ports[name].nodes}:interface=127.0.0.1"]\n'
            f'advertise = "127.0.0.1:{self.ports[name].relay}"\n'
            f'key_file = "{self.folder / "key"}"\n'
            'cleartext_clearance = "high"\ngap_timeout = "40s"\n'
        )

    def _accounts(self) -> str:
        return "".join(
            f'[accounts.{account}]\nsecret = "{self.secret_hash}"\nclient_ids = ["{account}-*"]\n'
            f'publish = [">"]\nsubscribe = [">"]\nclearance = "{clearance}"\n'
            for account, clearance in ACCOUNTS.items()
        )
