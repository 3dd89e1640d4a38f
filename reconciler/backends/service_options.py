"""Filter the storage options that a service returns, by object store.

Other options are ignored. They could send this machine's credentials to another host, or open its files.
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
    """The options of one object store: each name, with the one pylance prefers.

    Args:
        secrets: keys and tokens.
        settings: regions and request settings, which name no host.
        endpoints: addresses and accounts, which name a host.
        complete_credentials: sets of secrets of which each is enough to open data.
        identities: other options that pylance takes from the environment to open data, beside or before ``secrets``.
    """

    secrets: dict[str, str]
    settings: dict[str, str]
    endpoints: dict[str, str]
    complete_credentials: Collection[frozenset[str]] = ()
    identities: frozenset[str] = frozenset()


def _aliases(name: str, *aliases: str) -> dict[str, str]:
    return dict.fromkeys((name, *aliases), name)


def _unchanged(prefix: str, *names: str) -> dict[str, str]:
    """Return ``names``, with and without ``prefix``, each as its own preferred name."""
    return {alias: alias for name in names for alias in (name, f"{prefix}{name}")}


_S3 = _ObjectStore(
    secrets=_aliases("aws_access_key_id", "access_key_id")
    | _aliases("aws_secret_access_key", "secret_access_key")
    | _aliases("aws_session_token", "aws_token", "session_token", "token"),
    settings=_aliases("aws_region", "region")
    | _aliases("aws_default_region", "default_region")
    | _unchanged(
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
    endpoints=_aliases("aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url")
    | _aliases("aws_endpoint_url_s3"),
    complete_credentials=[frozenset({"aws_access_key_id", "aws_secret_access_key"})],
)
_AZURE = _ObjectStore(
    secrets=_aliases(
        "azure_storage_account_key",
        "access_key",
        "account_key",
        "azure_storage_access_key",
        "azure_storage_master_key",
        "master_key",
    )
    | _aliases("azure_storage_sas_key", "azure_storage_sas_token", "sas_key", "sas_token")
    | _aliases("azure_storage_token", "bearer_token", "token"),
    settings=_unchanged("azure_", "disable_tagging", "use_fabric_endpoint"),
    endpoints=_aliases("azure_storage_endpoint", "azure_endpoint", "endpoint")
    | _aliases("azure_storage_account_name", "account_name"),
    complete_credentials=[frozenset({f"azure_storage_{name}"}) for name in ("account_key", "sas_key", "token")],
    identities=frozenset(
        f"{prefix}{name}"
        for prefix in ("", "azure_", "azure_storage_")
        for name in ("client_id", "client_secret", "fabric_session_token", "federated_token_file", "use_azure_cli")
    ),
)
_GOOGLE = _ObjectStore(
    # pylance takes this one before all others.
    secrets=_aliases("google_storage_token", "bearer_token", "google_bearer_token"),
    settings={},
    endpoints=_aliases("google_base_url", "base_url"),
)
_OSS = _ObjectStore(
    secrets=_aliases("oss_access_key_id", "access_key_id")
    | _aliases("oss_secret_access_key", "access_key_secret")
    | _aliases("oss_security_token", "security_token"),
    settings=_aliases("oss_region", "region"),
    endpoints=_aliases("oss_endpoint", "endpoint"),
)
_COS = _ObjectStore(
    secrets=_aliases("cos_secret_id") | _aliases("cos_secret_key"),
    settings=_aliases("cos_enable_versioning"),
    endpoints=_aliases("cos_endpoint"),
)
_TOS = _ObjectStore(
    secrets=_aliases("tos_access_key_id", "access_key_id")
    | _aliases("tos_secret_access_key", "secret_access_key")
    | _aliases("tos_security_token", "security_token"),
    settings=_aliases("tos_region", "region"),
    endpoints=_aliases("tos_endpoint", "endpoint"),
)
_HUGGING_FACE = _ObjectStore(secrets=_aliases("hf_token", "token"), settings={}, endpoints={})
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
_IDENTITY_OPTION = re.compile(
    r"(.*_)?(client_id|profile|role_arn|service_account(_path)?|skip_signature|use_azure_cli|web_identity_token_file)",
    re.IGNORECASE,
)
"""Options that choose the identity that opens a dataset, beside those whose values are secrets."""
_STORAGE = "storage."
_EXPIRY = "expires_at_millis"
_PLAIN_HTTP = ("allow_http", "aws_allow_http", "azure_allow_http", "google_allow_http")

PUBLIC_OPTIONS = frozenset(_PLAIN_HTTP).union(*({*store.settings, *store.endpoints} for store in _STORES.values()))
"""Options that hold no secret: endpoints, regions and request settings."""


def options_of_service(
    offered: Mapping[str, str],
    location: str,
    configured: Mapping[str, str],
    hosts: Collection[str] | None,
    *,
    brings_hosts: bool,
) -> dict[str, str]:
    """Return the ``offered`` options accepted for ``location``, by pylance's names.

    An endpoint is accepted if its host is in ``configured``, in the location or in ``hosts``. Any host is accepted if
    ``hosts`` is None, the source ``brings_hosts`` (vended options do, properties of tables do not), and it brings
    complete credentials, so that none of the environment's are sent there. ``configured`` options are not replaced,
    but for the region and request settings =settings= the source brings no hosts: tables may be in several regions.
    """
    store = _STORES.get(locations.scheme(locations.pylance_uri(location)))
    if store is None:
        return {}
    options = {key.lower(): value for key, value in offered.items()}
    public = store.settings | store.endpoints
    preferred = store.secrets | public
    protected = {preferred[key.lower()] for key in configured if key.lower() in preferred}
    if not brings_hosts:
        protected -= set(store.settings.values())
    accepted = {store.secrets[key]: value for key, value in options.items() if key in store.secrets}
    known = {host for key, value in configured.items() for host in hosts_in(key, value)}
    known |= {host.replace(".dfs.", ".blob.") for host in hosts_in("location", location)}
    takes_any_host = hosts is None and brings_hosts and _opens_alone(store, accepted)
    if _EXPIRY in options:
        accepted[_EXPIRY] = options[_EXPIRY]
    for key, value in options.items():
        if (
            key in public
            and public[key] not in protected
            and all(
                takes_any_host or host in known or (hosts is not None and is_admitted(host, hosts))
                for host in hosts_in(key, value)
            )
        ):
            accepted[public[key]] = value
    is_plain_http = any(accepted.get(key, "").lower().startswith("http://") for key in store.endpoints.values())
    return accepted | {key: options[key] for key in _PLAIN_HTTP if is_plain_http and key in options}


def own_options(
    configured: Mapping[str, str], table: LiveTable, hosts: Collection[str] | None = None
) -> dict[str, str]:
    """Return ``configured`` options, updated by the table's ``storage.*`` properties.

    Everybody who can write to the catalog can set these properties: :func:`options_of_service` filters them.
    """
    options = {key.removeprefix(_STORAGE): value for key, value in table.properties.items() if key.startswith(_STORAGE)}
    accepted = options_of_service(options, table.location, configured, hosts, brings_hosts=False)
    return {key: text for key, text in configured.items() if _preferred(key, table.location) not in accepted} | accepted


def with_vended(
    configured: Mapping[str, str],
    table: LiveTable,
    ask: Callable[[], Mapping[str, str]],
    hosts: Collection[str] | None = None,
) -> dict[str, str]:
    """Return ``configured`` options, completed by the vended ones that ``ask`` returns.

    ``ask`` is not called for a table on this machine, nor if a configured option is a credential or chooses an
    identity: credentials of two sources do not mix. Vended options are filtered by :func:`options_of_service`. If the
    service vends none, those of the environment apply; a refusal logs a warning.

    Raises:
        UnauthenticatedError, ThrottlingError, ServiceUnavailableError: raised by ``ask``.
    """
    is_local = storage.local_path(table.location) is not None
    if is_local or any(is_sensitive_key(key) or _IDENTITY_OPTION.fullmatch(key) for key in configured):
        return dict(configured)
    try:
        vended = ask()
    except (errors.UnauthenticatedError, errors.ThrottlingError, errors.ServiceUnavailableError):
        raise
    except errors.BackendError as error:
        # Other errors mean that the service vends no credentials at all.
        if isinstance(error, errors.PermissionDeniedError | errors.InternalError):
            # The text of a malformed response might hold a part of the credentials.
            problem = str(error) if isinstance(error, errors.PermissionDeniedError) else "its answer makes no sense"
            _log.warning(
                "the service vends no credentials for table `%s`: %s. Those of the environment are used; "
                "`vend_credentials: false` asks for none",
                join(table.id),
                problem,
            )
        return dict(configured)
    return {**options_of_service(vended, table.location, configured, hosts, brings_hosts=True), **configured}


def _preferred(key: str, location: str) -> str:
    """Return pylance's preferred name of option ``key``; an unknown one unchanged."""
    store = _STORES.get(locations.scheme(locations.pylance_uri(location)))
    names = {} if store is None else store.secrets | store.settings | store.endpoints
    return names.get(key.lower(), key)


def _opens_alone(store: _ObjectStore, accepted: Mapping[str, str]) -> bool:
    """Return whether pylance opens data with ``accepted`` and no environment variables."""
    names = {name.lower() for name in os.environ}
    from_environment = {store.secrets[name] for name in names & store.secrets.keys()} | (names & store.identities)
    return any(credentials <= accepted.keys() for credentials in store.complete_credentials) and (
        from_environment <= accepted.keys()
    )
