from __future__ import annotations

from pathlib import Path

import pytest

from broker.config import defaults, explain, load_text
from broker.config.stored_secret import StoredSecret
from broker.identity.secret import matches_secret
from tests.cli.fake_node import FakeNode, run


def test_every_setting_is_explained_and_the_explanation_is_a_configuration() -> None:
    text = run(FakeNode(), "config", "--explain").stdout
    assert text == explain()
    assert load_text(text, "explained") == defaults()


def test_a_valid_file_passes(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('[node]\nname = "n1"\n')
    result = run(FakeNode(), "config", "--check", str(file))
    assert result.exit_code == 0
    assert result.stdout == f"{file}: 1 endpoints, 0 accounts, 0 stream tables: all right\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[node]\nnme = "x"\n', "node.nme is unknown, did you mean node.name?"),
        ("[limits]\nmax_sessions = -1\n", "limits.max_sessions must be"),
        ("[node\n", "is not TOML"),
    ],
)
def test_a_bad_file_is_one_line_with_key_and_place(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "node.toml"
    file.write_text(text)
    result = run(FakeNode(), "config", "--check", str(file))
    assert result.exit_code == 1
    assert told in result.stderr
    assert "(line " in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("key", "message"),
    [(b"short\n", "a key has at least 16 bytes"), (None, "network.key_file network.key can not")],
)
def test_a_weak_or_missing_key_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: bytes | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("node.toml").write_text('[network]\ncluster = "alps"\nkey_file = "network.key"\n')
    if key is not None:
        Path("network.key").write_bytes(key)
    result = run(FakeNode(), "config", "--check", "node.toml")
    assert result.exit_code == 1
    assert message in result.stderr


def test_a_secret_from_a_pipe_is_hashed_and_never_shown() -> None:
    result = run(FakeNode(), "config", "--hash-secret", stdin="correct horse\n")
    assert result.exit_code == 0
    assert "horse" not in result.output
    assert matches_secret(b"correct horse", StoredSecret.parse(result.stdout.strip()))


@pytest.mark.parametrize("secret", ["\n", "x" * 2000])
def test_no_secret_and_an_endless_one_are_refused(secret: str) -> None:
    result = run(FakeNode(), "config", "--hash-secret", stdin=secret)
    assert result.exit_code == 1
    assert result.stderr == "xmlbroker: a secret has 1 to 1024 bytes\n"


def test_only_one_action_is_allowed() -> None:
    assert run(FakeNode(), "config", "--explain", "--hash-secret").exit_code == 2
