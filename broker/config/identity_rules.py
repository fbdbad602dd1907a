"""Rules across the settings of accounts and logins."""

from __future__ import annotations

from collections.abc import Iterator

from broker.config.key_location import KeyPath, key_name
from broker.config.settings import Settings


def check_identity(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    """Yield the key at fault, and a sentence."""
    identity = settings.identity
    token_keys = {
        "token_keys": identity.token_keys,
        "token_issuer": identity.token_issuer,
        "token_audience": identity.token_audience,
    }
    for key, value in token_keys.items():
        if not value and any(token_keys.values()):
            yield ("identity", key), f"identity.{key} is missing: tokens need all three of them"
    if identity.client_authority is not None and not any(
        endpoint.startswith("ssl:") for endpoint in settings.listen.endpoints
    ):
        yield (
            ("identity", "client_authority"),
            "identity.client_authority needs an endpoint of the kind ssl in listen.endpoints",
        )
    owners: dict[tuple[str, str], str] = {}
    for account in settings.accounts:
        path = ("accounts", account.name)
        if not (account.secret or account.certificates or account.tokens):
            yield path, f"{key_name((*path, 'secret'))} is missing, or certificates, or tokens"
        if account.certificates and identity.client_authority is None:
            yield (
                (*path, "certificates"),
                f"{key_name((*path, 'certificates'))} needs identity.client_authority",
            )
        if account.tokens and identity.token_keys is None:
            yield (*path, "tokens"), f"{key_name((*path, 'tokens'))} needs identity.token_keys"
        for key, names in (("certificates", account.certificates), ("tokens", account.tokens)):
            for name in names:
                other = owners.setdefault((key, name), account.name)
                if other != account.name:
                    yield (
                        (*path, key),
                        f"{key_name((*path, key))} has {name!r}, which account {other!r} has too",
                    )
        for index, subject in enumerate(account.tokens):
            issuer = subject.partition("|")[0]
            if identity.token_keys is not None and issuer != identity.token_issuer:
                yield (
                    (*path, "tokens", index),
                    f"{key_name((*path, 'tokens'))} has the issuer {issuer!r}, "
                    f"but identity.token_issuer is {identity.token_issuer!r}",
                )
