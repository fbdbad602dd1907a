"""Order certificates of a site by its options."""

from __future__ import annotations

from broker.streams.contract import ITransportContext
from plugins.rcm.certificates.block_builder import BlockBuilder
from plugins.rcm.certificates.site_certificates import SiteCertificates
from plugins.rcm.options import RcmOptions


def create_certificates(
    options: RcmOptions, context: ITransportContext, incarnation: int, *, has_times: bool
) -> SiteCertificates | None:
    """Return the certificates of a site with the node's key; None without `certificates`."""
    if not options.certificates:
        return None
    group, site = context.instance, context.node
    builder = BlockBuilder(group, site, incarnation, context.signing_key, has_times=has_times)
    others = [each for each in options.sites if each != site]
    return SiteCertificates(builder, context.public_keys, others)
