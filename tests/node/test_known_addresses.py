from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from broker.node.known_addresses import KnownAddresses
from broker.transport import pending_connections
from broker.transport.pending_connections import PendingConnections


def tables_of(*names: str) -> dict[str, PendingConnections[object]]:
    return {name: PendingConnections() for name in names}


def run_now(call: Any, *of: Any) -> Deferred[Any]:
    return succeed(call(*of))


def test_addresses_outlive_a_restart(tmp_path: Path) -> None:
    path, before = tmp_path / "known.json", tables_of("clients", "nodes")
    stored = KnownAddresses(path, before)
    stored.load()
    stored.save()
    assert not path.exists()
    for host in ("192.0.2.1", "2001:db8::1"):
        before["clients"].add_known_address(host)
    before["nodes"].add_known_address("192.0.2.9")
    stored.save_later(run_now)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.unlink()
    stored.save_later(run_now)
    assert not path.exists(), "it was written without a change"
    before["clients"].add_known_address("192.0.2.1")
    stored.save()
    after = tables_of("clients", "nodes", "others")
    KnownAddresses(path, after).load()
    assert after["clients"].known_addresses == ["2001:db8::/64", "192.0.2.1"]
    assert after["nodes"].known_addresses == ["192.0.2.9"]
    assert after["others"].known_addresses == []


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b'{"clients": 5}', b'{"clients": [["x"], "192.0.2.1"'], ids=str
)
def test_an_unreadable_file_counts_as_empty(content: bytes, tmp_path: Path) -> None:
    path, tables = tmp_path / "known.json", tables_of("clients")
    path.write_bytes(content)
    KnownAddresses(path, tables).load()
    assert tables["clients"].known_addresses == []
    tables["clients"].add_known_address("192.0.2.1")
    KnownAddresses(path, tables).save()
    after = tables_of("clients")
    KnownAddresses(path, after).load()
    assert after["clients"].known_addresses == ["192.0.2.1"]


def test_a_long_file_gives_no_more_than_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, tables = tmp_path / "known.json", tables_of("clients")
    for number in range(5):
        tables["clients"].add_known_address(f"192.0.2.{number}")
    tables["clients"].add_known_address("x" * 1000)
    KnownAddresses(path, tables).save()
    monkeypatch.setattr(pending_connections, "MAX_KNOWN_ADDRESSES", 2)
    after = tables_of("clients")
    KnownAddresses(path, after).load()
    assert after["clients"].known_addresses == ["192.0.2.3", "192.0.2.4"]


def test_a_full_disk_is_survived(tmp_path: Path) -> None:
    path, tables = tmp_path / "file" / "known.json", tables_of("clients")
    path.parent.write_bytes(b"no folder")
    tables["clients"].add_known_address("192.0.2.1")
    KnownAddresses(path, tables).save()
    KnownAddresses(path, tables).save_later(run_now)
    assert path.parent.is_file()
