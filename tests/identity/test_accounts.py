from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config import load_text
from broker.errors import BadName, NotAllowed
from broker.event.envelope import SecurityLevel
from broker.event.stream import StreamPattern
from broker.identity import Account, accounts_by_name, identity_for
from broker.identity.client_ids import matches_client_id

TEXT = """
[accounts.zbw]
secret = "scrypt$16384$8$1$AAAAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
client_ids = ["zbw", "zbw-*"]
publish = ["asdi.zbw.>"]
clearance = "high"
"""


def account() -> Account:
    return accounts_by_name(load_text(TEXT, "node.toml").accounts)["zbw"]


def test_an_account_has_the_values_of_its_table() -> None:
    assert account().rights.publish == (StreamPattern.parse("asdi.zbw.>"),)
    assert account().rights.subscribe == ()
    assert account().clearance is SecurityLevel.HIGH
    assert account().administer is False


@pytest.mark.parametrize("client_id", ["zbw", "zbw-1", "zbw-"])
def test_an_account_uses_its_own_client_ids(client_id: str) -> None:
    identity = identity_for(account(), client_id)
    assert (identity.account, identity.client_id) == ("zbw", client_id)
    assert identity.rights == account().rights
    assert identity.clearance is SecurityLevel.HIGH


@pytest.mark.parametrize("client_id", ["other", "ZBW", "zbw1", "a-zbw-1"])
def test_an_account_may_not_be_another_client(client_id: str) -> None:
    with pytest.raises(NotAllowed, match=f"'zbw' may not use the client id '{client_id}'"):
        identity_for(account(), client_id)


def test_a_client_id_out_of_the_grammar_is_refused_before_the_patterns() -> None:
    with pytest.raises(BadName):
        identity_for(account(), "zbw-/etc")


@pytest.mark.parametrize(
    ("pattern", "client_id", "matches"),
    [
        ("*", "anything", True),
        ("a*", "a", True),
        ("*a", "ba", True),
        ("*a*", "ab", True),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("a*b*c", "aXbYc", True),
        ("a*b*c", "aXcYb", False),
        ("ab*ba", "aba", False),
        ("a.c", "abc", False),
        ("a?c", "abc", False),
        ("[a]", "a", False),
    ],
)
def test_a_star_is_the_only_wildcard(pattern: str, client_id: str, matches: bool) -> None:
    assert matches_client_id(pattern, client_id) is matches


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_a_pattern_matches_like_the_regular_expression(pattern: str, client_id: str) -> None:
    expression = ".*".join(re.escape(part) for part in pattern.split("*"))
    assert matches_client_id(pattern, client_id) is bool(re.fullmatch(expression, client_id))
