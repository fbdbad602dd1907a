"""Settings read in another process, in pieces that are short to decode.

A thread would compete with the reactor for the interpreter while it parses thousands of accounts.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from broker.config.identity import AccountSettings
from broker.config.settings import Settings
from broker.config.toml import load
from broker.errors import BrokerError, ConfigurationError, WireError, from_wire

#: Accounts in a piece: less than a millisecond to decode.
_ACCOUNTS: Final = 20
#: Seconds.
_TIMEOUT: Final = 120.0
_LENGTH: Final = struct.Struct(">I")


@attrs.frozen
class SettingsStream:
    """Settings without their accounts, and encoded pieces of the accounts."""

    settings: Settings
    pieces: Sequence[bytes]


def encode_settings(settings: Settings) -> SettingsStream:
    accounts = settings.accounts
    return SettingsStream(
        attrs.evolve(settings, accounts=()),
        [
            pickle.dumps(accounts[first : first + _ACCOUNTS])
            for first in range(0, len(accounts), _ACCOUNTS)
        ],
    )


def decode_accounts(piece: bytes) -> tuple[AccountSettings, ...]:
    # The process that made it is this program's own.
    accounts: tuple[AccountSettings, ...] = pickle.loads(piece)
    return accounts


def read_in_process(path: Path) -> SettingsStream:
    """Read a configuration in a child process, and wait for it. Raises `ConfigurationError`."""
    command = [sys.executable, "-m", "broker.config.settings_stream", str(path)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
            # twistd adds the folder in which it starts, where plug-ins may be.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"{path} can not be read in a process: {error}") from None
    if done.returncode != 0 or not done.stdout:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ConfigurationError(f"the process that reads {path} failed: {reason}")
    first, *pieces = _split(done.stdout)
    found: Settings | WireError = pickle.loads(first)
    if isinstance(found, tuple):
        raise from_wire(found)
    return SettingsStream(found, pieces)


def _split(data: bytes) -> list[bytes]:
    pieces, at = [], 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        pieces.append(data[at : at + length])
        at += length
    return pieces


def _main() -> None:
    try:
        stream = encode_settings(load(Path(sys.argv[1])))
        pieces = [pickle.dumps(stream.settings), *stream.pieces]
    except BrokerError as error:
        pieces = [pickle.dumps(error.to_wire())]
    for piece in pieces:
        sys.stdout.buffer.write(_LENGTH.pack(len(piece)) + piece)


if __name__ == "__main__":
    _main()
