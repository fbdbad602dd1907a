"""The state of a site survives its process."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from broker.errors import ConfigurationError
from plugins.rcm.site_state import FILE, SiteState


def test_the_incarnation_rises_with_each_start(tmp_path: Path) -> None:
    assert [SiteState(tmp_path, lead=0).incarnation for _ in range(3)] == [1, 2, 3]


def test_the_next_process_begins_at_or_above_each_clock(tmp_path: Path) -> None:
    state = SiteState(tmp_path, lead=100)
    state.cover(7)
    assert SiteState(tmp_path, lead=100).floor == 107
    state.cover(107)
    assert SiteState(tmp_path, lead=100).floor == 107, "the bound was high enough"
    state.cover(108)
    assert SiteState(tmp_path, lead=100).floor == 208


def test_a_clock_that_goes_on_alone_is_not_stored(tmp_path: Path) -> None:
    SiteState(tmp_path, lead=None).cover(10**15)
    assert SiteState(tmp_path, lead=None).floor == 0


def test_a_damaged_file_stops_the_node(tmp_path: Path) -> None:
    SiteState(tmp_path, lead=0)
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(ConfigurationError, match="is damaged"):
        SiteState(tmp_path, lead=0)


def test_a_disk_that_is_full_for_a_while_stops_nothing(tmp_path: Path) -> None:
    state = SiteState(tmp_path, lead=0)
    with patch("plugins.rcm.site_state.write_checksummed", side_effect=OSError(28, "full")):
        state.cover(5)
    state.cover(5)
    assert SiteState(tmp_path, lead=0).floor == 5
