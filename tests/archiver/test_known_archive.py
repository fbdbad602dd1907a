from __future__ import annotations

from pathlib import Path

import pytest

from broker.archiver.known_archive import FILE_NAME, open_archive
from broker.errors import ArchiveUnavailable


def test_an_empty_folder_in_place_of_a_known_archive_is_refused(tmp_path: Path) -> None:
    log, archive = tmp_path / "log", tmp_path / "archive"
    log.mkdir()
    open_archive(str(archive), log)
    away = archive.rename(tmp_path / "away")
    for _ in range(2):
        archive.mkdir(exist_ok=True)
        with pytest.raises(ArchiveUnavailable, match="is it mounted"):
            open_archive(str(archive), log)
        assert list(archive.iterdir()) == []
    archive.rmdir()
    away.rename(archive)
    open_archive(str(archive), log)
    # A new one is allowed at another place, or after the note was removed.
    open_archive(str(tmp_path / "other"), log)
    assert (log / FILE_NAME).read_text().splitlines() == [str(archive), str(tmp_path / "other")]
    archive.rename(away)
    (log / FILE_NAME).unlink()
    assert open_archive(str(archive), log).exists()
