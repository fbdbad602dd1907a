from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import attrs

from broker.cluster.address import Address
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.map.name_bindings import prove_descriptor
from broker.cluster.name_keys import build_bindings
from broker.cluster.signature_check import SignatureCheck, SignaturePolicy
from broker.config import Settings
from broker.errors import BadSignature, ProtocolError
from broker.event.origin import new_origin
from broker.order_certificates.signing_key import SigningKey

KEY, OTHER = SigningKey.generate(), SigningKey.generate()


def described(name: str, key: SigningKey) -> tuple[Any, Any]:
    node = NodeDescriptor(Address(("c",), name), new_origin(0, key.public.raw), 1, (5,))
    return node.to_plain(), tuple(prove_descriptor(key, node))


def test_another_key_of_a_name_is_counted_logged_and_audited() -> None:
    settings = Settings()
    settings = attrs.evolve(
        settings,
        node=attrs.evolve(settings.node, name="own"),
        network=attrs.evolve(settings.network, keep_keys=True),
    )
    stored = {(b"k", "own"): OTHER.public.raw}
    log = SimpleNamespace(
        signing_key=KEY,
        statements=lambda kinds: dict(stored),
        put_statement=lambda kind, name, key: stored.update({(kind, name): key}),
    )
    records: list[tuple[str, str, ProtocolError]] = []
    audit = SimpleNamespace(
        record=lambda action, *, subject, error: records.append((action, subject, error))
    )
    signatures = SignatureCheck(SignaturePolicy(), lambda: 0.0)
    bindings = build_bindings(settings, cast(Any, log), signatures, cast(Any, audit))
    assert bindings.find_key("own", *described("own", KEY)) == KEY.public.raw, "it has a new key"
    assert bindings.find_key("a", *described("a", KEY)) == KEY.public.raw
    assert stored == {(b"k", name): KEY.public.raw for name in ("own", "a")}
    try:
        bindings.find_key("a", *described("a", OTHER))
    except BadSignature as error:
        assert records == [("node-key", "a", error)]
    assert signatures.rejected == {"a": 1}
