from __future__ import annotations

import pytest

from broker.config.named_key import NAMED_KEY
from broker.order_certificates.signing_key import SigningKey


def test_key_with_its_name_is_read_and_written() -> None:
    key = str(SigningKey.generate().public)
    assert NAMED_KEY.read(f"n1:{key}") == ("n1", key)
    assert NAMED_KEY.write(("n1", key)) == f'"n1:{key}"'


@pytest.mark.parametrize("value", ["n1", "n1:", "n1:AAAA", ":x", "n 1:x", 7, ["n1"]])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(ValueError):
        NAMED_KEY.read(value)
