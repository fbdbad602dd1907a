"""The drop-in of the `rcm` link stack and stream transport."""

from plugins.rcm.stack import rcm_links
from plugins.rcm.transport import rcm_transport

__all__ = ["rcm_links", "rcm_transport"]
