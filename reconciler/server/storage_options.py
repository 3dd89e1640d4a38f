"""Which of a catalog's storage options a client is told, so that it needs credentials and no more to open data."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler import locations

__all__ = ["public_options"]

_WHERE = ("region", "default_region", "endpoint", "endpoint_url")
_HOW = (
    "allow_http",
    "checksum_algorithm",
    "conditional_put",
    "copy_if_not_exists",
    "disable_tagging",
    "request_payer",
    "s3_express",
    "unsigned_payload",
    "virtual_hosted_style_request",
)
_PUBLIC = frozenset(
    {
        *_WHERE,
        *_HOW,
        *(f"aws_{name}" for name in (*_WHERE, *_HOW)),
        "account_name",
        "azure_allow_http",
        "azure_endpoint",
        "azure_storage_account_name",
        "azure_storage_authority_host",
        "azure_storage_endpoint",
        "azure_storage_use_emulator",
        "azure_use_fabric_endpoint",
        "use_emulator",
        "use_fabric_endpoint",
        "oss_endpoint",
        "oss_region",
    }
)
"""The options that say where data is and how it is asked for, under pylance's names. Whatever is not here stays here:
an option that nobody has thought of may be a secret."""


def public_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return those of ``options`` that are no secret; an address that holds one is none of them."""
    return {
        key: value
        for key, value in options.items()
        if key.lower() in _PUBLIC and locations.redact(value) == value and "@" not in value
    }
