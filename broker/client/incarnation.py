"""A client's incarnation on disk: it rises with each process, whatever the clock (T18)."""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path

from broker.errors import ConfigurationError
from broker.event.event_id import next_incarnation
from broker.private_files import find_wider_mode, make_private_folder, open_private

_log = logging.getLogger(__name__)


def incarnation_file(folder: Path, client_id: str) -> Path:
    """The file is also the lock of the files beside it."""
    return folder / f"{client_id}.incarnation"


def raise_incarnation(folder: Path, client_id: str, now_us: int) -> int:
    """Return the next incarnation, stored durably under a lock.

    Raises `ConfigurationError` if the folder is not writable or the file holds no number.
    """
    path = incarnation_file(folder, client_id)
    try:
        make_private_folder(folder)
        if wider := find_wider_mode(folder):
            _log.warning("%s", wider)
        with open(path, "a+b", opener=open_private) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read().strip()
            incarnation = next_incarnation(int(text) if text else 0, now_us)
            file.truncate(0)
            file.write(b"%d\n" % incarnation)
            file.flush()
            os.fsync(file.fileno())
            return incarnation
    except ValueError:
        raise ConfigurationError(f"{path} does not hold a number; remove it") from None
    except OSError as error:
        raise ConfigurationError(
            f"the incarnation of {client_id} can not be stored: {error}"
        ) from None
