"""The drop-in of the `dcp` link stack, stream transport and parent selector."""

from plugins.dcp.mesh.selection import diverse_selector
from plugins.dcp.plugin import dcp_transport
from plugins.dcp.stack import dcp_links

__all__ = ["dcp_links", "dcp_transport", "diverse_selector"]
