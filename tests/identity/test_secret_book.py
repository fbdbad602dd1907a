from __future__ import annotations

import stat
from pathlib import Path

import pytest

from broker.config import load_text
from broker.errors import ConfigurationError
from broker.identity import Accounts, accounts_by_name
from broker.identity.secret_book import KEY_FILE, SecretBook, load_login_key

KEYS = "A" * 43 + "=:" + "A" * 43 + "="


def accounts(*secrets: str) -> Accounts:
    text = "\n".join(
        f"[accounts.a{number}]\nsecret = [{secret}]" for number, secret in enumerate(secrets)
    )
    return Accounts(load_text(text, "node.toml").accounts)


PLAIN = f'"SCRAM-SHA-256$100000:{"c2Fs" * 6}${KEYS}"'
SCRYPT = f'"SCRAM-SHA-256$scrypt:16384:8:1:{"c2Fs" * 8}${KEYS}"'
PAIR = f"{PLAIN}, {PLAIN}"


def shape_of(book: SecretBook, name: str) -> object:
    return [
        (each.derivation.algorithm, each.derivation.cost, len(each.derivation.salt))
        for each in book.find(name)
    ]


def test_an_unknown_name_has_the_same_false_salt_after_a_restart() -> None:
    first, second = (SecretBook(accounts(PLAIN), b"k" * 32) for _ in range(2))
    assert first.find("nobody") == second.find("nobody")
    assert first.find("nobody") != first.find("nobody-else")
    assert first.find("nobody") != SecretBook(accounts(PLAIN), b"l" * 32).find("nobody")


@pytest.mark.parametrize("secrets", [(PLAIN,), (SCRYPT,), (PAIR,), (PLAIN, SCRYPT, PAIR)])
def test_unknown_names_look_like_accounts(secrets: tuple[str, ...]) -> None:
    book = SecretBook(accounts(*secrets), b"k" * 32)
    known = {str(shape_of(book, f"a{number}")) for number in range(len(secrets))}
    unknown = {str(shape_of(book, f"x{number}")) for number in range(200)}
    assert unknown == known


def test_false_secrets_follow_changed_accounts() -> None:
    changing = accounts(PLAIN)
    book = SecretBook(changing, b"k" * 32)
    before = shape_of(book, "nobody")
    changing.replace(accounts_by_name(load_text(f"[accounts.b]\nsecret = [{SCRYPT}]", "").accounts))
    assert shape_of(book, "nobody") == shape_of(book, "b") != before


def test_the_key_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "below" / "data"
    key = load_login_key(folder)
    assert len(key) == 32 and load_login_key(folder) == key
    assert stat.S_IMODE((folder / KEY_FILE).stat().st_mode) == 0o600


def test_a_damaged_key_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_bytes(b"short")
    with pytest.raises(ConfigurationError, match="login.key does not have 32 bytes"):
        load_login_key(tmp_path)


def test_a_key_that_can_not_be_made_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigurationError, match="can not be read or made"):
        load_login_key(tmp_path / "file")
