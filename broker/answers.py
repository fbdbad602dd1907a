"""Answers of a node to its clients' questions, by what is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from broker.dtd.hint import FetchHint
from broker.dtd.interfaces import IDtdCache
from broker.dtd.reference import DtdReference
from broker.identity import Identity
from broker.recovery.asking import RecoveryAnswers
from broker.router.durable_answers import DurableAnswers
from broker.router.explaining import Explaining
from broker.router.session import Answerer
from broker.session.messages import Ask
from broker.status import Inspected, status


class Asked(Inspected, Protocol):
    """The parts of a node that answer."""

    @property
    def dtds(self) -> IDtdCache: ...
    @property
    def explaining(self) -> Explaining: ...


def node_answers(
    node: Asked, recovering: RecoveryAnswers, durable: DurableAnswers
) -> Mapping[str, Answerer]:
    """Who answers which question."""

    def answer_status(identity: Identity, _: Ask) -> Any:
        identity.check_administer()
        return status(node)

    def answer_dtd_list(_: Identity, __: Ask) -> Any:
        return [(reference.type, reference.version) for reference in node.dtds.references()]

    def answer_dtd_show(_: Identity, ask: Ask) -> Any:
        said = ask.arguments
        reference = DtdReference(said.get("type", ""), said.get("version", ""))
        dtd = node.dtds.lookup(reference, FetchHint(""))
        return dtd.addCallback(lambda found: found.text.decode())

    return {
        "status": answer_status,
        "dtd-list": answer_dtd_list,
        "dtd-show": answer_dtd_show,
        "explain": lambda identity, ask: node.explaining.answer(identity, ask),
        "recoveries": recovering.recoveries,
        "recover-explain": recovering.explain,
        **durable.by_name(),
    }
