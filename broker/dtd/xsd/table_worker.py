"""The child process that makes the table of a schema's simple types, within limits.

It reads a packed schema from standard input, and writes the table to standard output.
"""

from __future__ import annotations

import resource
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from broker.dtd.xsd.bundle import MAX_EXPANDED, SchemaBundle
from broker.dtd.xsd.type_table import build_slot_types

#: Seconds of processor time.
MAX_SECONDS: Final = 20
MAX_MEMORY: Final = 1 << 30


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The folder is removed before the process ends.
    signal.signal(signal.SIGXCPU, lambda *_: sys.exit(1))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS + 2))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MAX_EXPANDED, 2 * MAX_EXPANDED))
    bundle = SchemaBundle.unpack(sys.stdin.buffer.read())
    with TemporaryDirectory(prefix="xmlbroker-schema-") as name:
        folder = Path(name).resolve()
        for relative, content in bundle.files:
            path = folder / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        types = build_slot_types(bundle, folder)
    sys.stdout.buffer.write(msgspec.msgpack.encode(types))


if __name__ == "__main__":
    main()
