from __future__ import annotations

import base64

import pytest

from broker.config.stored_secret import StoredSecret
from broker.scram.key_derivation import KeyDerivation

SALT = "c2FsdHNhbHRzYWx0c2FsdA=="
DIGEST = base64.b64encode(b"digest--" * 4).decode()
PAIR = f"{DIGEST}:{DIGEST}"


@pytest.mark.parametrize(
    "text",
    [f"SCRAM-SHA-256$100000:{SALT}${PAIR}", f"SCRAM-SHA-256$scrypt:16384:8:1:{SALT}${PAIR}"],
)
def test_a_stored_secret_survives_reading_and_writing(text: str) -> None:
    stored = StoredSecret.parse(text)
    assert stored.derivation.salt == b"salt" * 4
    assert str(stored) == text
    assert not stored.is_digest


def test_a_digest_is_written_as_keys_that_do_not_allow_to_log_in() -> None:
    stored = StoredSecret.parse(f"scrypt$16384$8$1${SALT}${DIGEST}")
    assert stored.is_digest
    assert stored.derivation == KeyDerivation("scrypt", (16384, 8, 1), b"salt" * 4)
    assert DIGEST not in str(stored)
    again = StoredSecret.parse(str(stored))
    assert again == stored and not again.is_digest


def test_a_longer_digest_has_the_keys_of_its_first_bytes() -> None:
    long = base64.b64encode(b"digest--" * 5).decode()
    assert StoredSecret.parse(f"scrypt$16384$8$1${SALT}${long}") == StoredSecret.parse(
        f"scrypt$16384$8$1${SALT}${DIGEST}"
    )


def test_a_stored_secret_does_not_show_itself_in_a_log() -> None:
    stored = StoredSecret.parse(f"scrypt$16384$8$1${SALT}${DIGEST}")
    assert "salt" not in repr(stored).replace("salt=", "")
    assert "key=" not in repr(stored) and "\\x" not in repr(stored)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "form"),
        ("hunter2", "form"),
        (f"bcrypt$16384$8$1${SALT}${DIGEST}", "form"),
        (f"scrypt$16384$8${SALT}${DIGEST}", "form"),
        (f"scrypt$many$8$1${SALT}${DIGEST}", "not a number"),
        (f"scrypt$16384$8$1$salt!${DIGEST}", "not base64"),
        (f"scrypt$16385$8$1${SALT}${DIGEST}", "cost"),
        (f"scrypt$1$8$1${SALT}${DIGEST}", "cost is too low"),
        (f"scrypt$8192$8$1${SALT}${DIGEST}", "cost is too low"),
        (f"scrypt$16384$0$1${SALT}${DIGEST}", "cost is too low"),
        (f"scrypt$16384$7$1${SALT}${DIGEST}", "cost is too low"),
        (f"scrypt$16384$8$17${SALT}${DIGEST}", "cost"),
        (f"scrypt$1073741824$8$1${SALT}${DIGEST}", "cost"),
        (f"scrypt$16384$8$1$c2FsdA==${DIGEST}", "16 to 64 bytes"),
        (f"scrypt$16384$8$1${SALT}${SALT}", "32 to 64 bytes"),
        (f"SCRAM-SHA-256$4096:{SALT}${PAIR}", "iterations must be from 100000"),
        (f"SCRAM-SHA-256$2000001:{SALT}${PAIR}", "iterations must be from 100000"),
        (f"SCRAM-SHA-256$100000:c2FsdA==${PAIR}", "16 to 64 bytes"),
        (f"SCRAM-SHA-256$100000:{SALT}${DIGEST}", "32 bytes"),
        (f"SCRAM-SHA-256$100000${PAIR}", "not a number"),
        (f"SCRAM-SHA-256$scrypt:8192:8:1:{SALT}${PAIR}", "cost is too low"),
    ],
)
def test_a_weak_or_malformed_secret_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        StoredSecret.parse(text)
