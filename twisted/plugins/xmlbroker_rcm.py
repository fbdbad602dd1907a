"""The drop-in of the `rcm` link stack and stream transport."""

from plugins.rcm.plugin import rcm_transport
from plugins.rcm.stack import rcm_links

__all__ = ["rcm_links", "rcm_transport"]
