"""Order certificates of a site by its options."""

from __future__ import annotations

from broker.errors import ConfigurationError
from broker.order_certificates.signing_key import PinnedKey, PinnedKeys, SigningKey
from plugins.rcm.certificates.block_builder import BlockBuilder
from plugins.rcm.certificates.site_certificates import SiteCertificates
from plugins.rcm.options import RcmOptions


def create_certificates(
    options: RcmOptions,
    key: SigningKey,
    group: str,
    site: str,
    incarnation: int,
    *,
    has_times: bool,
) -> SiteCertificates | None:
    """Return the certificates of a site with the node's key; None without `site_keys`.

    Raises `ConfigurationError` for a key that other sites would reject.
    """
    if not options.site_keys:
        return None
    keys = _read_keys(options)
    if site in keys and str(key.public) not in map(str, keys[site]):
        raise ConfigurationError(
            f"site_keys: the key of {site} is {key.public}, by its node.key; found "
            + ", ".join(map(str, keys[site]))
        )
    builder = BlockBuilder(group, site, incarnation, key, has_times=has_times)
    return SiteCertificates(builder, keys, [each for each in options.sites if each != site])


def _read_keys(options: RcmOptions) -> PinnedKeys:
    """Raises `ConfigurationError`."""
    try:
        return {site: list(map(PinnedKey.parse, keys)) for site, keys in options.site_keys.items()}
    except ValueError as error:
        raise ConfigurationError(f"site_keys: {error}") from None
