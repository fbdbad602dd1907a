"""The stored list of a group's sites."""

from __future__ import annotations

from pathlib import Path

import msgpack
import pytest

from broker.dtd.atomic_file import write_checksummed
from broker.errors import ConfigurationError
from plugins.rcm.site_file import FILE, SiteFile
from plugins.rcm.site_list import Change, SiteRecord

ADDRESS = "tcp:host=h:port=1"
CONFIGURED = {"a": ADDRESS, "b": ADDRESS}


def test_the_configuration_counts_at_the_first_start_and_the_stored_list_later(
    tmp_path: Path,
) -> None:
    file = SiteFile(tmp_path)
    sites, refusing = file.read(CONFIGURED)
    assert sites.members == CONFIGURED and refusing == ()
    changed = sites.changed(SiteRecord("d", ADDRESS, True, Change(5, "a", "a", 1, 5), 3))
    file.write(changed, ["a", "c"])
    assert SiteFile(tmp_path).read({"b": ADDRESS}) == (changed, ("a", "c"))


def test_a_file_without_versions_is_read(tmp_path: Path) -> None:
    """Of the first version of the file."""
    records = [["a", ADDRESS, True, None], ["d", "", False, [5, "a", "a", 1, 5]]]
    data: bytes = msgpack.packb([1, records])
    write_checksummed(tmp_path / FILE, data, sync=True)
    file = SiteFile(tmp_path)
    sites, refusing = file.read({})
    assert refusing == () and [each.version for each in sites.records] == [0, 1]
    assert sites.left == ["d"] and sites.changes == [Change(5, "a", "a", 1, 5)]
    file.write(sites, refusing)
    assert SiteFile(tmp_path).read({}) == (sites, refusing)


@pytest.mark.parametrize("data", [b"", msgpack.packb([2, [["a", ADDRESS, True, None, 1]]])])
def test_a_damaged_file_stops_the_node(data: bytes, tmp_path: Path) -> None:
    write_checksummed(tmp_path / FILE, data, sync=True)
    with pytest.raises(ConfigurationError, match="is damaged"):
        SiteFile(tmp_path).read(CONFIGURED)
