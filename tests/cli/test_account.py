from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from broker.config import load
from broker.errors import NotAllowed
from broker.identity import hash_secret
from tests.cli.fake_node import FakeNode, run

RELOADED: dict[str, Any] = {
    "applied": ["accounts"],
    "restart": ["log.max_bytes"],
    "sessions_ended": 2,
    "subscriptions_ended": 0,
}


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "node.toml"
    path.write_text(
        '[identity]\naccounts_file = "accounts.toml"\n'
        f'[accounts.inline]\nsecret = "{hash_secret("inline")}"\n'
    )
    return str(path)


def accounts_of(config: str) -> dict[str, Any]:
    return {each.name: each for each in load(Path(config)).accounts}


def add(config: str, name: str, *options: str, secret: str = "first") -> Any:
    return run(
        FakeNode(), "account", "add", name, "--config", config, *options, stdin=f"{secret}\n"
    )


def test_add_makes_a_private_file_with_the_account(config: str) -> None:
    options = ["--publish", "a.>", "--publish", "b", "--deny-subscribe", "c", "--administer"]
    result = add(config, "feed", *options, "--client-ids", "feed-*", "--clearance", "low")
    assert result.exit_code == 0, result.output
    assert "xmlbroker reload" in result.stderr
    feed = accounts_of(config)["feed"]
    assert [each.text for each in feed.publish] == ["a.>", "b"]
    assert [each.text for each in feed.deny_subscribe] == ["c"]
    assert feed.administer and feed.clearance.value == "low" and feed.client_ids == ("feed-*",)
    file = Path(config).with_name("accounts.toml")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "first" not in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["feed"], "has the account feed already"),
        (["inline"], "has the account inline too"),
        (["other", "--clearance", "top"], 'clearance must be "low" or "med" or "high"'),
        (["other", "--publish", "a..b"], "publish must be"),
        (["bad name"], "not a valid account name"),
    ],
)
def test_a_wrong_addition_changes_nothing(config: str, arguments: list[str], error: str) -> None:
    assert add(config, "feed").exit_code == 0
    before = Path(config).with_name("accounts.toml").read_text()
    result = add(config, *arguments, secret="second")
    assert result.exit_code == 1
    assert error in result.output
    assert Path(config).with_name("accounts.toml").read_text() == before


def test_an_empty_secret_is_refused(config: str) -> None:
    result = add(config, "feed", secret="")
    assert result.exit_code == 1 and "a secret has 1 to" in result.output
    assert not Path(config).with_name("accounts.toml").exists()


def test_passwd_changes_the_secret_alone(config: str) -> None:
    add(config, "feed", "--publish", "a")
    old = accounts_of(config)["feed"]
    result = run(FakeNode(), "account", "passwd", "feed", "--config", config, stdin="second\n")
    assert result.exit_code == 0, result.output
    new = accounts_of(config)["feed"]
    assert new.secret != old.secret and new.publish == old.publish


def test_the_previous_secrets_can_be_kept_for_a_rotation(config: str) -> None:
    add(config, "feed")
    (first,) = accounts_of(config)["feed"].secret
    for number in range(5):
        arguments = ["account", "passwd", "feed", "--config", config, "--keep-old"]
        result = run(FakeNode(), *arguments, stdin=f"new {number}\n")
        assert result.exit_code == 0, result.output
    secrets = accounts_of(config)["feed"].secret
    assert len(secrets) == 4 and first not in secrets
    assert "4 in all" in result.stdout
    run(FakeNode(), "account", "passwd", "feed", "--config", config, stdin="last\n")
    assert len(accounts_of(config)["feed"].secret) == 1


def test_revoke_removes_the_account(config: str) -> None:
    add(config, "feed")
    result = run(FakeNode(), "account", "revoke", "feed", "--config", config)
    assert result.exit_code == 0, result.output
    assert list(accounts_of(config)) == ["inline"]


@pytest.mark.parametrize("command", ["passwd", "revoke"])
@pytest.mark.parametrize("name", ["inline", "absent"])
def test_an_account_outside_the_file_is_not_changed(config: str, command: str, name: str) -> None:
    add(config, "feed")
    result = run(FakeNode(), "account", command, name, "--config", config, stdin="second\n")
    assert result.exit_code == 1
    assert f"has no account {name} (accounts there: feed)" in result.output
    assert "edited by hand" in result.output


def test_list_shows_rights_and_no_secrets(config: str) -> None:
    add(config, "feed", "--publish", "a.>")
    result = run(FakeNode(), "account", "list", "--config", config)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["account"] for row in rows] == ["inline", "feed"]
    assert rows[1]["publish"] == ["a.>"] and rows[1]["secrets"] == 1
    assert rows[0]["file"] == config
    assert "scrypt" not in result.stdout and "SCRAM" not in result.stdout


def test_a_configuration_without_a_file_gets_advice(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text("")
    result = add(str(path), "feed")
    assert result.exit_code == 1
    assert 'accounts_file = "accounts.toml"' in result.output


def test_the_node_reloads_on_request(config: str) -> None:
    node = FakeNode(answers={"reload": RELOADED})
    arguments = ["account", "add", "feed", "--config", config, "--reload", "--account", "admin"]
    result = run(node, *arguments, stdin="first\n")
    assert result.exit_code == 0, result.output
    assert node.asked == [("reload", {})]
    assert node.connections[0]["account"] == "admin"
    assert json.loads(result.stdout.splitlines()[-1]) == RELOADED


def test_reload_says_what_is_applied_and_what_needs_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.cli.reload.is_terminal", lambda: True)
    result = run(FakeNode(answers={"reload": RELOADED}), "reload")
    assert result.stdout.splitlines() == [
        "applied: accounts",
        "changed, but applied only by a restart of the node: log.max_bytes",
        "sessions ended: 2",
    ]


def test_a_refused_reload_is_an_error() -> None:
    result = run(FakeNode(answers={"reload": NotAllowed("may not administer")}), "reload")
    assert result.exit_code == 1 and "may not administer" in result.output
