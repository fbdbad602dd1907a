"""Stream names, and patterns over them.

A name is one to sixteen tokens joined by dots (`asdi.zbw.tz`), a token 1 to 64 letters, digits, `_`
and `-`. So no name can escape from a folder or break a wire format. `*` matches exactly one token,
and a last `>` one or more.
"""

from __future__ import annotations

import re
from functools import lru_cache

import attrs

from broker.errors import BadName

MAX_TOKENS = 16
MAX_NAME_LENGTH = MAX_TOKENS * 65
#: Pairs of a pattern and a name whose match is kept.
MOST_MATCHED = 16_384
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_CLIENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}", re.ASCII)


@lru_cache(maxsize=4096)
def check_stream_name(name: str) -> str:
    """Raises `BadName`."""
    tokens = name.split(".")
    if len(tokens) > MAX_TOKENS:
        raise BadName(f"the stream name has {len(tokens)} tokens, at most {MAX_TOKENS} are allowed")
    for token in tokens:
        if not _TOKEN.fullmatch(token):
            raise BadName(
                f"the stream name {name[:80]!r}: token {token[:80]!r} "
                "is not 1 to 64 of A-Z a-z 0-9 _ -"
            )
    return name


@lru_cache(maxsize=4096)
def check_client_id(client_id: str) -> str:
    """Raises `BadName`."""
    if not _CLIENT_ID.fullmatch(client_id):
        raise BadName(f"the client id {client_id[:80]!r} is not 1 to 64 of A-Z a-z 0-9 _ . @ -")
    return client_id


@attrs.frozen
class StreamPattern:
    """Set of stream names, such as `asdi.*.kzbw` or `asdi.>`."""

    text: str
    tokens: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> StreamPattern:
        """Raises `BadName`."""
        tokens = tuple(text.split("."))
        if len(tokens) > MAX_TOKENS:
            raise BadName(
                f"the stream pattern has {len(tokens)} tokens, at most {MAX_TOKENS} are allowed"
            )
        for i, token in enumerate(tokens):
            if token == ">" and i != len(tokens) - 1:
                raise BadName(f"the stream pattern {text[:80]!r}: '>' may stand only at the end")
            if token not in ("*", ">") and not _TOKEN.fullmatch(token):
                raise BadName(
                    f"the stream pattern {text[:80]!r}: token {token[:80]!r} is neither '*', '>' "
                    "nor 1 to 64 of A-Z a-z 0-9 _ -"
                )
        return cls(text, tokens)

    def matches(self, stream: str) -> bool:
        """Return False also for a text that is longer than any name."""
        return len(stream) <= MAX_NAME_LENGTH and _match_tokens(self.tokens, stream)

    def covers(self, other: StreamPattern) -> bool:
        """Return True if each name of `other` matches."""
        mine, theirs = self.tokens, other.tokens
        if mine[-1] == ">":
            if len(theirs) < len(mine):
                return False
            mine = mine[:-1]
            theirs = theirs[: len(mine)]
        elif len(mine) != len(theirs) or theirs[-1] == ">":
            return False
        return all(m == "*" and t != ">" or m == t for m, t in zip(mine, theirs, strict=True))

    def overlaps(self, other: StreamPattern) -> bool:
        """Return True if a name matches both."""
        for mine, theirs in zip(self.tokens, other.tokens, strict=False):
            if ">" in (mine, theirs):
                return True
            if mine != theirs and "*" not in (mine, theirs):
                return False
        return len(self.tokens) == len(other.tokens)


@lru_cache(maxsize=MOST_MATCHED)
def _match_tokens(pattern: tuple[str, ...], stream: str) -> bool:
    tokens = stream.split(".")
    if pattern[-1] == ">":
        if len(tokens) < len(pattern):
            return False
        pattern = pattern[:-1]
    elif len(tokens) != len(pattern):
        return False
    return all(one in ("*", other) for one, other in zip(pattern, tokens, strict=False))
