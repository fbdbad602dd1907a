"""Certificates for tests."""

from __future__ import annotations

from examples.secure.certificates import Certificate as Certificate
from examples.secure.certificates import make_certificate as make_certificate
