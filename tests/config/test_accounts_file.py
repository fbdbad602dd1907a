from __future__ import annotations

import stat
import threading
from pathlib import Path

import attrs
import pytest

from broker.config import load
from broker.config.accounts_file import AccountsFile
from broker.config.identity import AccountSettings
from broker.config.toml import find_accounts_file, load_accounts, make_account
from broker.errors import ConfigurationError
from broker.event.envelope import SecurityLevel
from broker.identity import hash_secret

SECRET = hash_secret("secret")


def account(name: str, **table: object) -> AccountSettings:
    return make_account(name, {"secret": SECRET, **table})


def node_file(folder: Path, text: str = "") -> Path:
    path = folder / "node.toml"
    path.write_text(f'{text}\n[identity]\naccounts_file = "own/accounts.toml"\n')
    (folder / "own").mkdir(exist_ok=True)
    return path


def write(folder: Path, *accounts: AccountSettings) -> AccountsFile:
    file = AccountsFile(folder / "own/accounts.toml")
    with file.change() as present:
        present.update({each.name: each for each in accounts})
    return file


def test_accounts_of_the_file_join_those_of_the_configuration(tmp_path: Path) -> None:
    path = node_file(tmp_path, f'[accounts.inline]\nsecret = "{SECRET}"\n')
    full = account(
        "full@site.a",
        client_ids=["a", "b-*"],
        publish=["asdi.>"],
        deny_publish=["asdi.secret"],
        subscribe=[">"],
        types=[""],
        administer=True,
        clearance="high",
    )
    write(tmp_path, full, account("small"))
    assert find_accounts_file(path) == tmp_path / "own/accounts.toml"
    loaded = load(path).accounts
    assert [each.name for each in loaded] == ["inline", "full@site.a", "small"]
    assert loaded[1] == full and loaded[2] == account("small")
    assert load(path, accounts=[account("other")]).accounts[1:] == (account("other"),)


def test_the_file_is_private_and_says_that_comments_go(tmp_path: Path) -> None:
    node_file(tmp_path)
    file = write(tmp_path, account("a"))
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert "drops comments" in file.path.read_text()
    file.path.chmod(0o640)
    with pytest.raises(ConfigurationError, match="mode 640"):
        load_accounts(file.path)


def test_a_failed_change_leaves_the_file(tmp_path: Path) -> None:
    node_file(tmp_path)
    file = write(tmp_path, account("a"))
    before = file.path.read_text()
    with pytest.raises(ConfigurationError, match="no"), file.change() as accounts:
        accounts.clear()
        raise ConfigurationError("no")
    assert file.path.read_text() == before
    assert {each.name for each in (tmp_path / "own").iterdir()} == {
        "accounts.toml",
        "accounts.toml.lock",
    }


def test_changes_of_several_writers_are_all_kept(tmp_path: Path) -> None:
    node_file(tmp_path)
    template = account("a")

    def add(first: int) -> None:
        for number in range(first, first + 10):
            with AccountsFile(tmp_path / "own/accounts.toml").change() as accounts:
                accounts[f"a{number}"] = attrs.evolve(
                    template, name=f"a{number}", clearance=SecurityLevel.LOW
                )

    threads = [threading.Thread(target=add, args=[10 * n]) for n in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(AccountsFile(tmp_path / "own/accounts.toml").read()) == 40


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[limits]\nmax_sessions = 1", "limits is unknown; this file has tables"),
        ("[accounts.a]\npublish = []\nsecre = 1", "did you mean accounts.a.secret"),
        (f'[accounts.inline]\nsecret = "{SECRET}"', "has the account inline too"),
        ("[accounts.a", "is not TOML"),
    ],
)
def test_an_error_names_the_file_and_the_key(tmp_path: Path, text: str, error: str) -> None:
    path = node_file(tmp_path, f'[accounts.inline]\nsecret = "{SECRET}"\n')
    file = tmp_path / "own/accounts.toml"
    file.touch(0o600)
    file.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        load(path)
    assert error in str(raised.value)
    assert "accounts.toml" in str(raised.value)


def test_a_missing_file_is_an_error_with_advice(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="xmlbroker account add"):
        load(node_file(tmp_path))


def test_a_folder_that_can_not_be_written_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigurationError, match="can not be written"),
        AccountsFile(tmp_path / "absent/accounts.toml").change(),
    ):
        pass
