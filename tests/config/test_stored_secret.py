from __future__ import annotations

import pytest

from broker.config.stored_secret import StoredSecret

SALT = "c2FsdHNhbHRzYWx0c2FsdA=="
DIGEST = "ZGlnZXN0ZGlnZXN0ZGlnZXN0"


def test_a_stored_secret_survives_reading_and_writing() -> None:
    text = f"scrypt$16384$8$1${SALT}${DIGEST}"
    stored = StoredSecret.parse(text)
    assert (stored.n, stored.r, stored.p, stored.salt) == (16384, 8, 1, b"salt" * 4)
    assert str(stored) == text


def test_a_stored_secret_does_not_show_itself_in_a_log() -> None:
    stored = StoredSecret.parse(f"scrypt$16384$8$1${SALT}${DIGEST}")
    assert "digest" not in repr(stored)
    assert "salt" not in repr(stored)


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
        (f"scrypt$16384$8$1${SALT}$", "16 to 64 bytes"),
    ],
)
def test_a_secret_outside_the_range_of_scrypt_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        StoredSecret.parse(text)
