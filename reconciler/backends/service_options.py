"""Filter the storage options that a service names, by object store.

Any other option is ignored. It could let a service, or anybody who writes to it, choose where this machine's
credentials go and which of its files are read.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from reconciler import storage
from reconciler.model import errors, locations
from reconciler.model.hosts import hosts_in, is_admitted
from reconciler.model.live import LiveTable
from reconciler.model.names import join
from reconciler.model.redaction import is_sensitive_key

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _ObjectStore:
    """The options of one object store, each with the name that pylance prefers.

    Args:
        secrets: keys and tokens.
        where: what tells where and how to ask, and names no host by itself.
        endpoints: what names a host.
        whole: sets of secrets of which each opens data by itself.
        identities: other options that pylance takes from the environment to open data, beside or before ``secrets``.
    """

    secrets: dict[str, str]
    where: dict[str, str]
    endpoints: dict[str, str]
    whole: Collection[frozenset[str]] = ()
    identities: frozenset[str] = frozenset()


def _as(name: str, *aliases: str) -> dict[str, str]:
    return dict.fromkeys((name, *aliases), name)


def _as_is(prefix: str, *names: str) -> dict[str, str]:
    return {alias: alias for name in names for alias in (name, f"{prefix}{name}")}


_S3 = _ObjectStore(
    secrets=_as("aws_access_key_id", "access_key_id")
    | _as("aws_secret_access_key", "secret_access_key")
    | _as("aws_session_token", "aws_token", "session_token", "token"),
    where=_as("aws_region", "region")
    | _as("aws_default_region", "default_region")
    | _as_is(
        "aws_",
        "checksum_algorithm",
        "conditional_put",
        "copy_if_not_exists",
        "disable_tagging",
        "request_payer",
        "s3_express",
        "unsigned_payload",
        "virtual_hosted_style_request",
    ),
    endpoints=_as("aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url") | _as("aws_endpoint_url_s3"),
    whole=[frozenset({"aws_access_key_id", "aws_secret_access_key"})],
)
_AZURE = _ObjectStore(
    secrets=_as(
        "azure_storage_account_key",
        "access_key",
        "account_key",
        "azure_storage_access_key",
        "azure_storage_master_key",
        "master_key",
    )
    | _as("azure_storage_sas_key", "azure_storage_sas_token", "sas_key", "sas_token")
    | _as("azure_storage_token", "bearer_token", "token"),
    where=_as_is("azure_", "disable_tagging", "use_fabric_endpoint"),
    endpoints=_as("azure_storage_endpoint", "azure_endpoint", "endpoint")
    | _as("azure_storage_account_name", "account_name"),
    whole=[frozenset({f"azure_storage_{name}"}) for name in ("account_key", "sas_key", "token")],
    identities=frozenset(
        f"{prefix}{name}"
        for prefix in ("", "azure_", "azure_storage_")
        for name in ("client_id", "client_secret", "fabric_session_token", "federated_token_file", "use_azure_cli")
    ),
)
_GOOGLE = _ObjectStore(
    # pylance takes this one before all others.
    secrets=_as("google_storage_token", "bearer_token", "google_bearer_token"),
    where={},
    endpoints=_as("google_base_url", "base_url"),
)
_OSS = _ObjectStore(
    secrets=_as("oss_access_key_id", "access_key_id")
    | _as("oss_secret_access_key", "access_key_secret")
    | _as("oss_security_token", "security_token"),
    where=_as("oss_region", "region"),
    endpoints=_as("oss_endpoint", "endpoint"),
)
_COS = _ObjectStore(
    secrets=_as("cos_secret_id") | _as("cos_secret_key"),
    where=_as("cos_enable_versioning"),
    endpoints=_as("cos_endpoint"),
)
_TOS = _ObjectStore(
    secrets=_as("tos_access_key_id", "access_key_id")
    | _as("tos_secret_access_key", "secret_access_key")
    | _as("tos_security_token", "security_token"),
    where=_as("tos_region", "region"),
    endpoints=_as("tos_endpoint", "endpoint"),
)
_HUGGING_FACE = _ObjectStore(secrets=_as("hf_token", "token"), where={}, endpoints={})
_STORES = {
    "abfss": _AZURE,
    "az": _AZURE,
    "cos": _COS,
    "gs": _GOOGLE,
    "hf": _HUGGING_FACE,
    "oss": _OSS,
    "s3": _S3,
    "tos": _TOS,
}
_OPENER = re.compile(
    r"(.*_)?(client_id|profile|role_arn|service_account(_path)?|skip_signature|use_azure_cli|web_identity_token_file)",
    re.IGNORECASE,
)
"""Options that say who opens a dataset, beside those whose values are secrets."""
_STORAGE = "storage."
_EXPIRY = "expires_at_millis"
_PLAIN_HTTP = ("allow_http", "aws_allow_http", "azure_allow_http", "google_allow_http")

PUBLIC_OPTIONS = frozenset(_PLAIN_HTTP).union(*({*one.where, *one.endpoints} for one in _STORES.values()))
"""What says where data is and how it is asked for, and is no secret."""


def options_of_service(
    offered: Mapping[str, str],
    location: str,
    configured: Mapping[str, str],
    hosts: Collection[str] | None,
    *,
    brings_hosts: bool,
) -> dict[str, str]:
    """Return the options that are accepted from a service for ``location``.

    A host is one that ``configured`` options or the location name, or one of ``hosts``. Where those are None and it
    ``brings_hosts``, any is taken, together with credentials of its own that nothing of the environment is added to.
    What is ``configured`` stays; a table that brings no hosts of its own may still be in another region.
    """
    store = _STORES.get(locations.scheme(locations.pylance_uri(location)))
    if store is None:
        return {}
    plain = {key.lower(): value for key, value in offered.items()}
    named = store.where | store.endpoints
    every = store.secrets | named
    ours = {every[key.lower()] for key in configured if key.lower() in every}
    if not brings_hosts:
        ours -= set(store.where.values())
    taken = {store.secrets[key]: value for key, value in plain.items() if key in store.secrets}
    known = {host for key, value in configured.items() for host in hosts_in(key, value)}
    known |= {host.replace(".dfs.", ".blob.") for host in hosts_in("location", location)}
    is_free = hosts is None and brings_hosts and _opens_alone(store, taken)
    if _EXPIRY in plain:
        taken[_EXPIRY] = plain[_EXPIRY]
    for key, value in plain.items():
        if (
            key in named
            and named[key] not in ours
            and all(
                is_free or host in known or (hosts is not None and is_admitted(host, hosts))
                for host in hosts_in(key, value)
            )
        ):
            taken[named[key]] = value
    is_plain_http = any(taken.get(key, "").lower().startswith("http://") for key in store.endpoints.values())
    return taken | {key: plain[key] for key in _PLAIN_HTTP if is_plain_http and key in plain}


def own_options(
    configured: Mapping[str, str], table: LiveTable, hosts: Collection[str] | None = None
) -> dict[str, str]:
    """Return the ``configured`` options, with what the ``storage.*`` properties of ``table`` say about opening it.

    Anybody who writes to the catalog can set those: see :func:`options_of_service`.
    """
    options = {key.removeprefix(_STORAGE): value for key, value in table.properties.items() if key.startswith(_STORAGE)}
    taken = options_of_service(options, table.location, configured, hosts, brings_hosts=False)
    return {key: text for key, text in configured.items() if _alias_of(key, table.location) not in taken} | taken


def with_vended(
    configured: Mapping[str, str],
    table: LiveTable,
    ask: Callable[[], Mapping[str, str]],
    hosts: Collection[str] | None = None,
) -> dict[str, str]:
    """Return the options for opening a dataset: the ``configured`` ones above those that ``ask`` returns.

    A table on this machine needs none. Configured options that say who opens it stay alone, as credentials of two kinds
    are not mixed. A service that vends none leaves those of the environment, with a warning where it refused. Its other
    options are taken as :func:`options_of_service` says.

    Raises:
        UnauthenticatedError, ThrottlingError, ServiceUnavailableError: the service gave no answer.
    """
    is_local = storage.local_path(table.location) is not None
    if is_local or any(is_sensitive_key(key) or _OPENER.fullmatch(key) for key in configured):
        return dict(configured)
    try:
        vended = ask()
    except (errors.UnauthenticatedError, errors.ThrottlingError, errors.ServiceUnavailableError):
        raise
    except errors.BackendError as error:
        # Other errors say that it vends none at all.
        if isinstance(error, errors.PermissionDeniedError | errors.InternalError):
            # The text of an answer that makes no sense might hold a part of the credentials.
            problem = str(error) if isinstance(error, errors.PermissionDeniedError) else "its answer makes no sense"
            _log.warning(
                "the service vends no credentials for table `%s`: %s. Those of the environment are used; "
                "`vend_credentials: false` asks for none",
                join(table.id),
                problem,
            )
        return dict(configured)
    return {**options_of_service(vended, table.location, configured, hosts, brings_hosts=True), **configured}


def _alias_of(key: str, location: str) -> str:
    """Return the name under which a service's option ``key`` is taken for ``location``; ``key`` where it is not."""
    store = _STORES.get(locations.scheme(locations.pylance_uri(location)))
    known = {} if store is None else store.secrets | store.where | store.endpoints
    return known.get(key.lower(), key)


def _opens_alone(store: _ObjectStore, taken: Mapping[str, str]) -> bool:
    """Return whether ``taken`` opens data without anything from the environment."""
    names = {name.lower() for name in os.environ}
    added = {store.secrets[name] for name in names & store.secrets.keys()} | (names & store.identities)
    return any(credentials <= taken.keys() for credentials in store.whole) and added <= taken.keys()
