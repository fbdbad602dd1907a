"""Registers the `rcm` stack and transport."""

from plugins.rcm.stack import rcm
from plugins.rcm.transport import rcm_transport

__all__ = ["rcm", "rcm_transport"]
