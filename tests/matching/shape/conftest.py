"""Fixtures for shapes: a type of notes, and a cache compared with the reference engine."""

from __future__ import annotations

import pytest

from broker.dtd.dtd import Dtd
from tests.matching.conftest import load_dtd
from tests.matching.shape.oracle import CheckedCache

NOTE_DTD = b"""
<!ENTITY % Mspaces.content ", note?">
<!ENTITY % Mspaces.envelope
         PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">
%Mspaces.envelope;
<!ELEMENT note (line | mixed | any | x:far | far)*>
<!ATTLIST note xmlns:x CDATA #FIXED "urn:x" key ID #IMPLIED ref IDREF #IMPLIED>
<!ELEMENT line (#PCDATA)>
<!ATTLIST line
          free CDATA #IMPLIED
          other CDATA "usual"
          fixed CDATA #FIXED "so"
          choice (a | b) "a"
          token NMTOKEN #IMPLIED
          xml:lang CDATA #IMPLIED
          x:free CDATA #IMPLIED
          x:given CDATA "&lt;given>">
<!ELEMENT mixed (#PCDATA | line)*>
<!ELEMENT any ANY>
<!ELEMENT x:far (#PCDATA)>
<!ATTLIST x:far free CDATA #IMPLIED>
<!ELEMENT far (#PCDATA)>
<!ATTLIST far xmlns:y CDATA #IMPLIED free CDATA #IMPLIED>
"""


@pytest.fixture(scope="session")
def note_dtd() -> Dtd:
    """A type with all kinds of declarations that decide on slots."""
    return load_dtd("note", "1.0", NOTE_DTD)


@pytest.fixture
def checked(flight_dtd: Dtd, note_dtd: Dtd) -> CheckedCache:
    """An empty cache for flights and notes."""
    return CheckedCache(flight_dtd, note_dtd)
