"""Signature of a node on a page that it sends to another node (`docs/protocols/recovery.md`).

It covers the request as the node has received it, and the whole answer. So a node on the way can
change neither.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from broker.errors import BadSignature
from broker.order_certificates.signing_key import SigningKey
from broker.recovery.messages import FetchPage, PageFetched, PageSignature
from broker.signatures.statement import PAGE_DOMAIN, check_statement, sign_statement
from broker.wire.codec import pack


def sign_page(key: SigningKey, request: FetchPage, page: PageFetched) -> PageFetched:
    signature = sign_statement(key, PAGE_DOMAIN, *_parts(request, page))
    return msgspec.structs.replace(page, signature=PageSignature(key.public.raw, signature))


def find_signer(request: FetchPage, page: PageFetched) -> bytes | None:
    """Return the public key that has signed a page; None for a page without a signature.

    Raises `BadSignature` if the signature belongs to another request or page.
    """
    if page.signature is None:
        return None
    key, signature = page.signature
    try:
        check_statement(key, signature, PAGE_DOMAIN, *_parts(request, page))
    except BadSignature:
        raise BadSignature(f"the page of {page.source} is not the one that was signed") from None
    return key


def _parts(request: FetchPage, page: PageFetched) -> tuple[bytes, bytes]:
    asked = (
        *(request.target, request.source, request.request),
        *(request.client_id, request.name, request.pattern, request.query),
        *(sorted(request.namespaces.items()), request.clearance, request.ranges, request.serial),
    )
    sent = (
        *(page.error, page.reached, page.next, page.rank, page.begins, page.origin),
        [sha256(each).digest() for each in page.chunks],
    )
    return pack(asked), pack(sent)
