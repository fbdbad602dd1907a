"""Settings of accounts, and of logins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from broker.config import value_kind
from broker.config.setting import ValueKind, derived_setting, setting
from broker.config.stored_secret import StoredSecret
from broker.event.envelope import SecurityLevel
from broker.event.stream import StreamPattern

#: Secrets of an account at a time: the present one, and earlier or later ones during a rotation.
MOST_SECRETS: Final = 4
#: Prefixes of subject alternative names; any other text is a subject.
ALTERNATIVE_NAMES: Final = ("DNS:", "URI:", "email:")


def _read_secrets(value: object) -> tuple[StoredSecret, ...]:
    texts = value if isinstance(value, list) else [value]
    if not 0 < len(texts) <= MOST_SECRETS or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"it is neither a text nor a list of 1 to {MOST_SECRETS} texts")
    return tuple(map(StoredSecret.parse, texts))


def _check_certificate_name(text: str) -> str:
    if text.startswith(ALTERNATIVE_NAMES):
        return text.lower() if text.startswith("DNS:") else text
    # The library takes a tenth of a second to import.
    from cryptography.x509 import Name

    name = Name.from_rfc4514_string(text)
    if not list(name):
        raise ValueError
    return name.rfc4514_string()


def _check_token_subject(text: str) -> str:
    issuer, bar, subject = text.partition("|")
    if not (issuer and bar and subject):
        raise ValueError
    return text


def _text_of(allowed: str, check: Callable[[str], str]) -> ValueKind[str]:
    def read(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError
        return check(value)

    return ValueKind(allowed, read, json.dumps)


SECRETS: Final = ValueKind(
    "the hash of a secret, as xmlbroker config --hash-secret prints it, or a list of 1 to "
    f"{MOST_SECRETS} of them",
    _read_secrets,
    lambda stored: json.dumps([str(each) for each in stored]),
    secret=True,
)
CERTIFICATE_NAME: Final = _text_of(
    'a subject such as "CN=display,O=Example" or a name such as "DNS:display.example.org", '
    '"URI:..." or "email:..."',
    _check_certificate_name,
)
TOKEN_SUBJECT: Final = _text_of(
    'an issuer and a subject such as "https://login.example.org|alice"', _check_token_subject
)
TEXT: Final = _text_of("a text", str)


@attrs.frozen
class IdentitySettings:
    """Accounts of a file of their own, logins other than by secret, and earlier clients."""

    realm: str = setting(
        value_kind.OPTIONAL_NAME,
        "",
        "Name of the party that gives out this node's accounts: accounts of one name belong "
        "together at nodes of one realm only. A node without a realm takes those of all.",
    )
    accounts_file: Path | None = setting(
        value_kind.OPTIONAL_FILE,
        None,
        "TOML file with further tables [accounts.NAME], which only its owner may read, relative "
        "to this file. `xmlbroker account` edits it.",
    )

    accept_sent_secrets: bool = setting(
        value_kind.BOOLEAN,
        False,
        "Whether a client of session protocol 6 or less, which sends the secret itself, may log "
        "in over TLS or on this machine. For the time of an upgrade only.",
    )
    require_client_key: bool = setting(
        value_kind.BOOLEAN,
        False,
        "Whether durable subscriptions are refused to clients without a key of their own, and "
        "those stored without one are not handed over to other nodes. A client has a key with a "
        "state folder, a secret or a certificate, except in earlier versions.",
    )
    client_authority: Path | None = setting(
        value_kind.OPTIONAL_FILE,
        None,
        "PEM file of the authorities of clients' certificates; with it the ssl endpoints of "
        "listen.endpoints ask for a certificate.",
    )
    token_keys: Path | None = setting(
        value_kind.OPTIONAL_FILE,
        None,
        "JWKS file with the public keys of the issuer of bearer tokens.",
    )
    token_issuer: str = setting(TEXT, "", "The issuer: the claim iss of a token.")
    token_audience: str = setting(
        TEXT, "", "This node for the issuer: in the claim aud of a token."
    )
    token_claim: str = setting(
        TEXT, "sub", "The claim with the subject that an account's `tokens` name."
    )


@attrs.frozen
class AccountSettings:
    """One account: its credentials, its client ids and its rights. It has at least one of
    `secret`, `certificates` and `tokens`."""

    name: str
    secret: tuple[StoredSecret, ...] = setting(
        SECRETS,
        (),
        "Hash of the account's secret. During a rotation a list: each of them is valid.",
        shown='"SCRAM-SHA-256$100000:SALT$STORED:SERVER"',
    )
    certificates: tuple[str, ...] = setting(
        value_kind.list_of(CERTIFICATE_NAME),
        (),
        "Names in clients' certificates that log in to this account: whole subjects, or "
        "alternative names.",
    )
    tokens: tuple[str, ...] = setting(
        value_kind.list_of(TOKEN_SUBJECT),
        (),
        "Bearer tokens that log in to this account: issuer and subject.",
    )
    client_ids: tuple[str, ...] = derived_setting(
        value_kind.list_of(value_kind.CLIENT_IDS, least=1),
        lambda account: (account.name,),
        "Client ids that the account may use; by default its own name.",
        shown='["NAME"]',
    )
    publish: tuple[StreamPattern, ...] = setting(
        value_kind.list_of(value_kind.STREAMS), (), "Streams that the account may publish to."
    )
    subscribe: tuple[StreamPattern, ...] = setting(
        value_kind.list_of(value_kind.STREAMS), (), "Streams that the account may subscribe to."
    )
    deny_publish: tuple[StreamPattern, ...] = setting(
        value_kind.list_of(value_kind.STREAMS),
        (),
        "Streams that the account may not publish to, whatever `publish` allows.",
    )
    deny_subscribe: tuple[StreamPattern, ...] = setting(
        value_kind.list_of(value_kind.STREAMS),
        (),
        "Streams that the account may not read, whatever `subscribe` allows. A subscription whose "
        "pattern overlaps one of these is refused.",
    )
    types: tuple[str, ...] = setting(
        value_kind.list_of(value_kind.TYPE_PREFIX),
        (),
        'Event types whose DTDs the account may register: names or prefixes; "" stands for all.',
    )
    administer: bool = setting(
        value_kind.BOOLEAN, False, "Whether the account may administer the node."
    )
    clearance: SecurityLevel = setting(
        value_kind.CLEARANCE,
        SecurityLevel.MED,
        "Highest security level of events that the account may publish or receive.",
    )
