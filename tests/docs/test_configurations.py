"""Each configuration in the documents passes `xmlbroker config --check`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import twisted.plugins
from broker.cluster.node_certificate import NodeCertificate
from broker.config.accounts_file import AccountsFile
from broker.transport.stacks import find_plugins
from tests.capability import need
from tests.cli.fake_node import FakeNode, run

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    each
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "examples/**/*.toml")
    for each in ROOT.glob(pattern)
    if each.name != "pyproject.toml"
)
#: A node of a network, for blocks with stacks only.
NETWORK = """
[network]
cluster = "alps"
listen = ["tcp:port=8766:interface=10.0.0.7"]
key_file = "network.key"
"""
EXAMPLE = ROOT / "examples" / "two_parents"


def blocks_of(document: Path, language: str) -> list[str]:
    text = document.read_text()
    if document.suffix == ".toml":
        return [text] if language == "toml" else []
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def join(before: str, block: str) -> str:
    """Return a block as a whole configuration; a fragment is added to the block before it."""
    header = re.search(r"^\[.*\]", block, re.MULTILINE)
    if header is None:
        return join("", before).replace(NETWORK, block + NETWORK)
    if header.group() in before:
        return join("", before).replace(header.group(), block)
    return block if "[network]" in block else block + NETWORK


CONFIGURATIONS = [
    pytest.param(join(before, block), id=f"{document.relative_to(ROOT)}-{index}")
    for document in DOCUMENTS
    if (blocks := blocks_of(document, "toml"))
    for index, (before, block) in enumerate(zip(["", *blocks], blocks, strict=False))
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the shell commands of `configuration.md` were run, as printed."""
    need("openssl")
    folder = tmp_path_factory.mktemp("configuration")
    made = [each for each in blocks_of(ROOT / "docs/configuration.md", "sh") if "openssl" in each]
    assert len(made) == 2
    for commands in made:
        subprocess.run(["sh", "-ec", commands], cwd=folder, check=True, capture_output=True)
    with AccountsFile(folder / "accounts.toml").change():
        """`xmlbroker account` makes an empty file, too."""
    return folder


@pytest.fixture
def example_plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the plug-in of `examples/two_parents` for one test."""
    places = [*twisted.plugins.__path__, str(EXAMPLE / "twisted" / "plugins")]
    monkeypatch.setattr(twisted.plugins, "__path__", places)
    monkeypatch.syspath_prepend(str(EXAMPLE))
    find_plugins.cache_clear()
    yield
    find_plugins.cache_clear()


@pytest.mark.usefixtures("example_plugin")
@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_each_configuration_in_the_documents_passes_the_check(
    text: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    Path("node.toml").write_text(text)
    result = run(FakeNode(), "config", "--check", "node.toml")
    assert result.exit_code == 0, result.stderr


def test_most_documents_with_configurations_are_found() -> None:
    assert len(CONFIGURATIONS) > 12


def test_the_documented_certificate_is_that_of_its_node_by_its_authority(folder: Path) -> None:
    NodeCertificate(folder / "n1.pem", folder / "authority.pem", "n1")
    for purpose in ("sslserver", "sslclient"):
        subprocess.run(
            ["openssl", "verify", "-x509_strict", "-purpose", purpose]
            + ["-CAfile", "authority.pem", "n1-certificate.pem"],
            cwd=folder,
            check=True,
            capture_output=True,
        )
