from __future__ import annotations

import base64
import hmac
import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from broker.config.identity import IdentitySettings
from broker.errors import AuthenticationFailed, ConfigurationError
from broker.identity.tokens import MOST_KEYS, TokenVerifier

ISSUER, AUDIENCE = "https://login.example.org", "xmlbroker"
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
PRIVATE: dict[str, Any] = {"RS256": RSA, "ES256": EC, "EdDSA": ED}


def jwk(algorithm: str, key: Any, kid: str = "") -> dict[str, Any]:
    made = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key())
    return {**json.loads(made), "kid": kid or algorithm, "use": "sig"}


KEYS = [jwk(algorithm, key) for algorithm, key in PRIVATE.items()]


def verifier(folder: Path, *keys: dict[str, Any], claim: str = "sub") -> TokenVerifier:
    file = folder / "keys.json"
    file.write_text(json.dumps({"keys": keys or KEYS}))
    return TokenVerifier(
        IdentitySettings(
            token_keys=file, token_issuer=ISSUER, token_audience=AUDIENCE, token_claim=claim
        )
    )


def claims(**changed: Any) -> dict[str, Any]:
    made = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": int(time.time()) + 600}
    return {key: value for key, value in (made | changed).items() if value is not None}


def token(algorithm: str = "EdDSA", kid: str | None = None, key: Any = None, **of: Any) -> bytes:
    return jwt.encode(
        claims(**of), key or PRIVATE[algorithm], algorithm, headers={"kid": kid or algorithm}
    ).encode()


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_a_token_of_the_issuer_has_its_subject_and_end(algorithm: str, tmp_path: Path) -> None:
    subject, end = verifier(tmp_path).verify(token(algorithm, exp=4_000_000_000))
    assert (subject, end) == (f"{ISSUER}|alice", 4_000_000_000.0)


def test_another_claim_may_name_the_subject(tmp_path: Path) -> None:
    subject, _ = verifier(tmp_path, claim="email").verify(token(email="alice@example.org"))
    assert subject == f"{ISSUER}|alice@example.org"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"exp": 1_000_000_000}, "expired"),
        ({"nbf": 4_000_000_000}, "not yet valid"),
        ({"iss": "https://other.example.org"}, "issuer"),
        ({"aud": "another-service"}, "[Aa]udience"),
        *(({missing: None}, missing) for missing in ("exp", "iss", "aud", "sub")),
        ({"exp": "soon"}, "not valid"),
    ],
)
def test_a_token_for_another_time_or_party_is_refused(
    changed: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(AuthenticationFailed, match=reason):
        verifier(tmp_path).verify(token(**changed))


def encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def forged_tokens() -> dict[str, bytes]:
    public = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    good = token().decode()
    header, body, signature = good.split(".")
    head = encode(json.dumps({"alg": "HS256", "typ": "JWT", "kid": "RS256"}).encode())
    signed = b".".join([head, encode(json.dumps(claims()).encode())])
    mac = hmac.digest(public, signed, "sha256")
    return {
        "none": jwt.encode(claims(), "", "none", headers={"kid": "RS256"}).encode(),
        "public key as a symmetric one": b".".join([signed, encode(mac)]),
        "another key": token(key=ed25519.Ed25519PrivateKey.generate()),
        "unknown key": token(kid="elsewhere"),
        "a key of another algorithm": token("ES256", kid="RS256"),
        "altered": f"{header}.{body[:-4]}AAAA.{signature}".encode(),
        "without a signature": f"{header}.{body}.".encode(),
        "garbage": b"\xff" * 100,
        "empty": b"",
    }


@pytest.mark.parametrize("kind", forged_tokens())
def test_a_forged_token_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(AuthenticationFailed) as refused:
        verifier(tmp_path).verify(forged_tokens()[kind])
    assert len(refused.value.text) <= 200


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("no JSON", "not a JWKS file"),
        ('{"keys": []}', "not 1 to 100 keys"),
        (json.dumps({"keys": [{"kty": "oct", "k": "AAAA"}]}), "not one of RSA, EC, OKP"),
        (json.dumps({"keys": [KEYS[0], {"kty": "EC", "crv": "P-256"}]}), "key 2 is not usable"),
        (json.dumps({"keys": [KEYS[0]] * (MOST_KEYS + 1)}), "not 1 to 100 keys"),
        (json.dumps({"keys": [{**KEYS[0], "use": "enc"}]}), "no key for signatures"),
        (json.dumps({"keys": [jwk("ES384", ec.generate_private_key(ec.SECP384R1()))]}), "ES384"),
        (
            json.dumps({"keys": [jwk("RS256", rsa.generate_private_key(65537, 1024))]}),
            "less than 2048 bits",
        ),
        (
            json.dumps({"keys": [json.loads(jwt.get_algorithm_by_name("ES256").to_jwk(EC))]}),
            "private key",
        ),
    ],
)
def test_an_unusable_file_of_keys_stops_the_node(content: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(content)
    with pytest.raises(ConfigurationError, match=reason):
        TokenVerifier(IdentitySettings(token_keys=file))
    with pytest.raises(ConfigurationError, match="can not be read"):
        TokenVerifier(IdentitySettings(token_keys=tmp_path / "absent"))


def test_later_tokens_need_the_keys_of_the_last_load(tmp_path: Path) -> None:
    tokens = verifier(tmp_path)
    old = token()
    file = tmp_path / "keys.json"
    file.write_text("nothing")
    with pytest.raises(ConfigurationError):
        tokens.load_again()
    tokens.verify(old)
    other = ed25519.Ed25519PrivateKey.generate()
    file.write_text(json.dumps({"keys": [jwk("EdDSA", other)]}))
    replace = tokens.load_again()
    tokens.verify(old)
    assert replace()
    with pytest.raises(AuthenticationFailed):
        tokens.verify(old)
    tokens.verify(token(key=other))


def without_kid(algorithm: str = "EdDSA") -> bytes:
    return jwt.encode(claims(), PRIVATE[algorithm], algorithm).encode()


def test_a_token_names_its_key_unless_there_is_one_only(tmp_path: Path) -> None:
    only = verifier(tmp_path, KEYS[2])
    assert only.verify(without_kid())[0] == f"{ISSUER}|alice"
    absent = "a key that this node does not have"
    with pytest.raises(AuthenticationFailed, match=absent):
        only.verify(token(kid="another"))
    for algorithm in PRIVATE:
        with pytest.raises(AuthenticationFailed, match=absent):
            verifier(tmp_path).verify(without_kid(algorithm))


def test_a_claim_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AuthenticationFailed, match="claim number is not a text"):
        verifier(tmp_path, claim="number").verify(token(number=5))


def test_keys_for_other_uses_are_left_out(tmp_path: Path) -> None:
    keys = [{**KEYS[0], "use": "enc"}, *[KEYS[2]] * (MOST_KEYS - 1)]
    tokens = verifier(tmp_path, *keys)
    assert tokens.verify(token())[0] == f"{ISSUER}|alice"
    with pytest.raises(AuthenticationFailed):
        tokens.verify(token("RS256"))
