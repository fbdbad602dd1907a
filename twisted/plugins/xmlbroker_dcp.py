"""The drop-in of the `dcp` link stack and stream transport."""

from plugins.dcp.plugin import dcp_transport
from plugins.dcp.stack import dcp_links

__all__ = ["dcp_links", "dcp_transport"]
