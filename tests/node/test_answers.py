"""Questions of operators need the right to administer."""

from __future__ import annotations

from unittest.mock import Mock

import attrs
import pytest

from broker.errors import NotAllowed
from broker.identity import anonymous_identity
from broker.node.answers import build_answers
from broker.subscriptions.durable_answers import DurableAnswers
from broker.testing.simulation import World
from broker.wire.messages import Ask


def test_questions_of_operators_need_the_right_to_administer() -> None:
    with World(1) as world:
        answers = build_answers(world.node, world.node.parse_query)
        identity = attrs.evolve(anonymous_identity("c"), account="a", administer=False)
        for what in ("status", "reload", "client-reset", "log-give-up"):
            with pytest.raises(NotAllowed, match="may not administer"):
                answers[what](identity, Ask(1, what, {"client": "c", "origin": "0" * 24}))


@pytest.mark.parametrize(
    ("owns_id", "has_account", "administer", "may"),
    [
        (True, True, False, True),
        (True, False, False, False),
        (False, True, False, False),
        (False, False, False, False),
        (False, False, True, True),
    ],
)
def test_a_durable_subscription_is_its_owners(
    owns_id: bool, has_account: bool, administer: bool, may: bool
) -> None:
    durables = Mock()
    durables.owner_of.return_value.has_account.return_value = has_account
    answers = DurableAnswers(durables=durables, log=Mock(), sessions=list, others=None)
    identity = attrs.evolve(
        anonymous_identity("c"), account="a", administer=administer, client_ids=("c", "d-*")
    )
    assert answers._may_access(identity, "d-1" if owns_id else "e") is may
