"""Verification of bearer tokens (OIDC, JWT) with the issuer's public keys from a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.config.identity import IdentitySettings
from broker.errors import AuthenticationFailed, ConfigurationError

if TYPE_CHECKING:
    from jwt import PyJWK

#: By public keys only: a symmetric one would let each node make tokens.
ALGORITHMS: Final = ("RS256", "ES256", "EdDSA")
_KEY_TYPES: Final = ("RSA", "EC", "OKP")
#: Bits of an RSA key.
LEAST_RSA: Final = 2048
MOST_KEYS: Final = 100


class TokenVerifier:
    """Verifies tokens offline: signature, issuer, audience, and times."""

    def __init__(self, settings: IdentitySettings) -> None:
        """Raises `ConfigurationError`."""
        assert settings.token_keys is not None
        self._issuer = settings.token_issuer
        self._audience = settings.token_audience
        self._claim = settings.token_claim
        self._file = settings.token_keys
        self._keys = _load_keys(self._file)

    def load_again(self) -> Callable[[], bool]:
        """Read the keys again, in any thread. Raises `ConfigurationError`.

        Return a function that uses them for later logins, and returns True.
        """
        keys = _load_keys(self._file)

        def replace() -> bool:
            self._keys = keys
            return True

        return replace

    def verify(self, token: bytes) -> tuple[str, float]:
        """Return `issuer|subject` and the end of validity (s since 1970).

        Raises `AuthenticationFailed`.
        """
        import jwt

        try:
            kid = jwt.get_unverified_header(token).get("kid")
            claims = jwt.decode(
                token,
                self._find_key(kid),
                algorithms=list(ALGORITHMS),
                audience=self._audience,
                issuer=self._issuer,
                options={"require": ["exp", "iss", "aud", self._claim]},
            )
        except jwt.ExpiredSignatureError:
            raise AuthenticationFailed("the token has expired") from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
            raise AuthenticationFailed(f"the token is not valid: {error}"[:200]) from None
        subject = claims[self._claim]
        if not isinstance(subject, str):
            raise AuthenticationFailed(f"the token's claim {self._claim} is not a text")
        return f"{self._issuer}|{subject}", float(claims["exp"])

    def _find_key(self, kid: object) -> PyJWK:
        """Raises `AuthenticationFailed`."""
        if kid is None and len(self._keys) == 1:
            return self._keys[0]
        for key in self._keys:
            if key.key_id == kid:
                return key
        raise AuthenticationFailed("the token is signed with a key that this node does not have")


def _load_keys(path: Path) -> list[PyJWK]:
    import jwt

    where = f"identity.token_keys {path}"
    try:
        rows = json.loads(path.read_bytes())["keys"]
    except OSError as error:
        raise ConfigurationError(f"{where} can not be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ConfigurationError(f"{where} is not a JWKS file") from None
    if not isinstance(rows, list) or not 0 < len(rows) <= MOST_KEYS:
        raise ConfigurationError(f"{where} has not 1 to {MOST_KEYS} keys")
    keys = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or row.get("kty") not in _KEY_TYPES:
            raise ConfigurationError(f"{where}: key {number} is not one of {', '.join(_KEY_TYPES)}")
        if row.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK(row)
        except jwt.PyJWTError as error:
            raise ConfigurationError(f"{where}: key {number} is not usable: {error}") from None
        if key.algorithm_name not in ALGORITHMS:
            raise ConfigurationError(
                f"{where}: key {number} is for {key.algorithm_name}, not {', '.join(ALGORITHMS)}"
            )
        if "d" in row:
            raise ConfigurationError(f"{where}: key {number} is a private key")
        if row["kty"] == "RSA" and key.key.key_size < LEAST_RSA:
            raise ConfigurationError(f"{where}: key {number} has less than {LEAST_RSA} bits")
        keys.append(key)
    if not keys:
        raise ConfigurationError(f"{where} has no key for signatures")
    return keys
