"""Order certificates of a site by its options."""

from __future__ import annotations

from broker.errors import ConfigurationError
from broker.order_certificates.signing_key import PinnedKey, SigningKey
from plugins.rcm.certificates.block_builder import BlockBuilder
from plugins.rcm.certificates.site_certificates import SiteCertificates
from plugins.rcm.options import RcmOptions


def create_certificates(
    options: RcmOptions, group: str, site: str, incarnation: int, *, has_times: bool
) -> SiteCertificates | None:
    """Return the certificates of a site; None without a key.

    Raises `ConfigurationError` for a key that can not be used.
    """
    if options.signing_key is None:
        return None
    key = SigningKey.load(options.signing_key)
    keys = _read_keys(options)
    pinned = keys.get(site)
    if pinned is not None and str(pinned) != str(key.public):
        raise ConfigurationError(
            f"site_keys: {pinned} is not the key of {site} in {options.signing_key}, "
            f"which is {key.public}"
        )
    builder = BlockBuilder(group, site, incarnation, key, has_times=has_times)
    return SiteCertificates(builder, keys, [each for each in options.sites if each != site])


def _read_keys(options: RcmOptions) -> dict[str, PinnedKey]:
    """Raises `ConfigurationError`."""
    try:
        return {site: PinnedKey.parse(text) for site, text in options.site_keys.items()}
    except ValueError as error:
        raise ConfigurationError(f"site_keys: {error}") from None
