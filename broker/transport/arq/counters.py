"""Counters of a connection over datagrams, for people and programs (M9)."""

from __future__ import annotations

import attrs


@attrs.frozen
class ArqCounters:
    """Counts of datagrams of one connection (M9)."""

    lost: int = 0
    """Reported missing by the peer."""
    repeated: int = 0
    received: int = 0
    """With contents, repetitions included."""
    duplicate: int = 0
    beyond: int = 0
    forged: int = 0
    """Damaged, or written without the key."""
    replayed: int = 0
    """Recorded before, or late by more than the window."""

    def plus(self, other: ArqCounters) -> ArqCounters:
        mine, theirs = attrs.astuple(self), attrs.astuple(other)
        return ArqCounters(*(one + more for one, more in zip(mine, theirs, strict=True)))


@attrs.define
class HandshakeCounts:
    """Counts of datagrams outside connections."""

    #: Too short, of unknown kind, with a wrong tag, or inconsistent.
    malformed: int = 0
    unknown_connection: int = 0
    bad_cookies: int = 0
    #: Unproven connections, for newer ones.
    dropped_half_open: int = 0
    #: For the limit of connections, or for another version.
    refused: int = 0
    #: OPEN without a tag by the secret.
    wrong_secrets: int = 0
    #: Accepted connections of version 1.
    old_versions: int = 0
