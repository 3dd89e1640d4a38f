"""The credentials that an Iceberg REST catalog hands out with a table, in pylance's words.

LoadTable answers them to whoever asks for ``vended-credentials``: ``storage-credentials`` by the beginning of
locations, and ``config`` for what none of them is about. The names are those of Iceberg's own clients (`s3.*`, `gcs.*`,
`adls.*`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

ASKING: Mapping[str, str] = {"X-Iceberg-Access-Delegation": "vended-credentials"}
"""The header that asks for them."""

_NAMES = {
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.endpoint": "aws_endpoint",
    "client.region": "aws_region",
    "s3.region": "aws_region",
    "gcs.oauth2.token": "google_storage_token",
}
_SAS = re.compile(r"adls\.sas-token\.(?P<account>[a-z0-9]+)(\.(dfs|blob)\..+)?")


def vended_options(answer: Mapping[str, object], location: str) -> dict[str, str]:
    """Return the storage options for the dataset at ``location`` that the answer of LoadTable hands out."""
    entries = answer.get("storage-credentials")
    credentials = [one for one in entries if isinstance(one, Mapping)] if isinstance(entries, list) else []
    meant = [one for one in credentials if location.startswith(str(one.get("prefix") or ""))]
    best = max(meant, key=lambda one: len(str(one.get("prefix") or "")), default={})
    return dict(_renamed({**_texts(answer.get("config")), **_texts(best.get("config"))}))


def _renamed(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in config.items():
        if key in _NAMES:
            yield _NAMES[key], value
        elif sas := _SAS.fullmatch(key):
            yield "azure_storage_account_name", sas["account"]
            yield "azure_storage_sas_token", value
    if config.get("s3.path-style-access", "").lower() == "true":
        yield "aws_virtual_hosted_style_request", "false"
    if config.get("s3.endpoint", "").startswith("http://"):
        yield "allow_http", "true"


def _texts(config: object) -> dict[str, str]:
    known = config if isinstance(config, Mapping) else {}
    return {str(key): value for key, value in known.items() if isinstance(value, str)}
