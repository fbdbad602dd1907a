from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
KNOWN = {"./dev": {"demo", "test"}, "xmlbroker": {"pub", "sub"}}


def load_check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_check", ROOT / "docs" / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


docs = load_check()


def test_documents_of_this_tree_are_correct() -> None:
    assert docs.check(ROOT) == []


@pytest.mark.parametrize(
    "text",
    [
        "[there](other.md)",
        "[there](other.md#a-heading)",
        "[there](<other.md>)",
        "[here](#title)",
        "[folder](docs/)",
        '[there](other.md "a title")',
        "[away](https://example.org/none.md)",
        "[mail](mailto:someone@example.org)",
        "`[code](none.md)`",
        "```\n[code](none.md)\n```",
        "![picture](docs/picture.png)",
        "[there][x]\n\n[x]: other.md",
    ],
)
def test_valid_link_passes(text: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "picture.png").touch()
    (tmp_path / "other.md").write_text("# Other\n\n## A `heading`!\n")
    (tmp_path / "README.md").write_text(f"# Title\n\n{text}\n")
    assert list(docs.broken_links(tmp_path)) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[gone](none.md)", "no file of this tree"),
        ("[gone](other.md#none)", "names no heading"),
        ("[gone](#none)", "names no heading"),
        ("[out](../README.md)", "no file of this tree"),
        ("![gone](none.png)", "no file of this tree"),
        ("[there][x]\n\n[x]: none.md", "no file of this tree"),
        ("```\n# heading\n```\n[code](#heading)", "names no heading"),
    ],
)
def test_broken_link_is_reported(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Other\n")
    (tmp_path / "README.md").write_text(f"# Title\n\n{text}\n")
    (sentence,) = docs.broken_links(tmp_path)
    assert sentence.startswith("README.md: ")
    assert reason in sentence


def test_only_commands_in_shell_blocks_are_checked(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "xmlbroker nothing\n```sh\n./dev test -k x  # all\n$ xmlbroker pub a.xml\n"
        "xmlbroker --help\necho xmlbroker nothing\n```\n```python\nxmlbroker nothing\n```\n"
    )
    assert list(docs.unknown_commands(tmp_path, KNOWN)) == []


def test_unknown_command_is_reported(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("```sh\n./dev nothing\nxmlbroker push a.xml\n```\n")
    assert list(docs.unknown_commands(tmp_path, KNOWN)) == [
        "README.md: ./dev has no subcommand nothing",
        "README.md: xmlbroker has no subcommand push",
    ]


def test_generated_documents_are_ignored(tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "README.md").write_text("[gone](none.md)")
    assert docs.documents(tmp_path) == []


def test_dev_subcommands_come_from_its_help() -> None:
    subcommands = {
        "demo",
        "network",
        "roaming",
        "chat",
        "secure",
        "mesh",
        "packages",
        "test",
        "lint",
        "soak",
        "mutate",
        "bench",
        "against",
        "docs",
        "clean",
        "help",
    }
    assert docs.dev_subcommands(ROOT) == subcommands


def test_missing_test_is_reported(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text("def test_there() -> None: ...\n")
    (tmp_path / "README.md").write_text(
        "`tests/test_x.py`, `tests/test_x.py::test_there`, `tests/test_x.py::test_away`, "
        "`tests/test_y.py`\n"
    )
    assert list(docs.missing_tests(tmp_path)) == [
        "README.md: tests/test_x.py has no test test_away",
        "README.md: there is no tests/test_y.py",
    ]
