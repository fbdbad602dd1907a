"""A site proves with the key of its node that a log is its own."""

from __future__ import annotations

from typing import Any, cast

import attrs
import pytest

from broker.errors import BadSignature, ProtocolError
from broker.event.origin import new_origin
from broker.order_certificates.signing_key import SigningKey
from plugins.rcm.effects import EndLink, SendPacket
from plugins.rcm.site_logs import MARK, SiteLogs

KEY, OTHER_KEY = SigningKey.generate(), SigningKey.generate()
LOG, OTHER_LOG = new_origin(0, KEY.public.raw), new_origin(0, OTHER_KEY.public.raw)
UNSIGNED = "0" * 16


@attrs.define
class Context:
    node: str
    signing_key: SigningKey = KEY
    origin: str = LOG
    instance: str = "group"
    must_prove: bool = False

    def must_prove_log(self, node: str, origin: str) -> bool:
        return self.must_prove


def site_logs(context: Context, **origins: str) -> SiteLogs:
    return SiteLogs(cast(Any, context), origins)


def proof_of(context: Context) -> bytes:
    (effect,) = site_logs(context).connect("here", 0.0)
    assert isinstance(effect, SendPacket) and list(effect.sites) == ["here"]
    return effect.data


@pytest.mark.parametrize("must_prove", [False, True])
def test_of_two_sites_that_name_a_log_the_one_with_its_key_counts(must_prove: bool) -> None:
    logs = site_logs(Context("here", must_prove=must_prove), liar=LOG, owner=LOG)
    assert not logs.may_state("owner") and not logs.may_state("liar")
    assert logs.receive("owner", [proof_of(Context("owner"))], 0.0) == []
    assert logs.may_state("owner") and not logs.may_state("liar")
    assert logs.snapshot() == {"unproven_ranges": 3}


@pytest.mark.parametrize("must_prove", [False, True])
def test_a_site_without_a_proof_counts_unless_signatures_are_required(must_prove: bool) -> None:
    logs = site_logs(Context("here", must_prove=must_prove), a=LOG, b=UNSIGNED, c=UNSIGNED)
    assert logs.may_state("a") is not must_prove
    assert logs.may_state("b") and logs.may_state("c")


@pytest.mark.parametrize(
    "proof",
    [
        proof_of(Context("other")),
        proof_of(Context("a", instance="other")),
        proof_of(Context("a", origin=OTHER_LOG)),
        proof_of(Context("a", signing_key=OTHER_KEY)),
        MARK,
        MARK + b"\x92\xc4\x00\xc4\x00",
    ],
    ids=["site", "group", "log", "key", "empty", "short"],
)
def test_a_wrong_proof_ends_the_link(proof: bytes) -> None:
    logs = site_logs(Context("here"), a=LOG)
    (effect,) = logs.receive("a", [proof], 0.0)
    assert isinstance(effect, EndLink) and effect.site == "a"
    assert isinstance(effect.error, BadSignature | ProtocolError)


def test_a_proof_is_of_one_log() -> None:
    """A site comes back with a new log."""
    origins = {"a": LOG}
    logs = SiteLogs(cast(Any, Context("here", must_prove=True)), origins)
    proof = proof_of(Context("a"))
    assert logs.receive("a", [proof, proof], 0.0) == logs.receive("a", [proof], 0.0) == []
    assert logs.may_state("a")
    origins["a"] = OTHER_LOG
    assert not logs.may_state("a")


def test_a_log_without_a_key_has_no_proof() -> None:
    assert site_logs(Context("a", origin=UNSIGNED)).connect("here", 0.0) == []
