from __future__ import annotations

import io
import re
import subprocess
import tarfile
from pathlib import Path

from tests.capability import skip
from tests.system.node_process import ROOT

_FORMAT = re.compile(r'^FORMAT(?:_NAME)? = b"([^"]+)"', re.MULTILINE)


def previous_tree(folder: Path, revision: str) -> Path:
    """Skip the test if the clone lacks the commit."""
    found = subprocess.run(
        ["git", "-C", str(ROOT), "archive", revision, "broker", "plugins", "twisted", "dtd"],
        capture_output=True,
        check=False,
    )
    if found.returncode:
        skip("previous-version", found.stderr.decode().strip())
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as packed:
        packed.extractall(folder, filter="data")
    for plugin in (ROOT / "twisted" / "plugins").glob("*.py"):
        # Twisted would find the installed plug-ins of this version, too.
        (folder / "twisted" / "plugins" / plugin.name).touch()
    return folder


def log_format(tree: Path) -> str:
    names = ("log/tables.py", "store/tables.py", "store/log_file.py")
    files = (tree / "broker" / name for name in names)
    found = _FORMAT.search("".join(file.read_text() for file in files if file.exists()))
    assert found is not None, f"no format in {tree}"
    return found[1]
