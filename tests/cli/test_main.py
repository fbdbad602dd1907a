from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import broker
from broker.cli import COMMANDS, main
from tests.cli.fake_node import FakeNode, run

ROOT = Path(__file__).resolve().parents[2]


def test_help_lists_every_command() -> None:
    text = CliRunner().invoke(main, ["--help"]).stdout
    for name, about in COMMANDS.items():
        assert name in text
        assert about in " ".join(text.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_loaded_and_explains_itself(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert command.help is not None
    assert command.help.splitlines()[0] in " ".join(result.stdout.split())


def test_an_unknown_command_is_status_2() -> None:
    result = run(FakeNode(), "subscribe")
    assert result.exit_code == 2
    assert "No such command" in result.stderr


def test_the_version_is_ours() -> None:
    assert broker.__version__ in run(FakeNode(), "--version").stdout


def test_help_pays_for_no_command() -> None:
    code = (
        "import sys; from broker.cli import main; main(['--help'], standalone_mode=False);"
        "print([m for m in ('twisted', 'lxml', 'rich', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_python_m_does_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "broker.cli", "nothing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: xmlbroker")
