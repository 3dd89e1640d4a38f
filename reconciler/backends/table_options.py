"""What the entry of a table, and its catalog, say of opening its dataset, beside what is configured."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping

from pydantic import BaseModel

from reconciler import storage
from reconciler.backends.service_options import alias_of, options_of_service
from reconciler.model.errors import (
    BackendError,
    InternalError,
    PermissionDeniedError,
    ServiceUnavailableError,
    ThrottlingError,
    UnauthenticatedError,
)
from reconciler.model.live import LiveTable
from reconciler.model.names import join
from reconciler.model.redaction import is_sensitive_key

_log = logging.getLogger(__name__)
_STORAGE = "storage."
_INSTEAD = "Those of the environment are tried; `vend_credentials: false` asks for none"
_WHO_OPENS = re.compile(
    r"(.*_)?(client_id|profile|role_arn|service_account(_path)?|skip_signature|use_azure_cli|web_identity_token_file)",
    re.IGNORECASE,
)
"""Options that say who opens a dataset, beside those whose values are secrets."""


class VendsCredentials(BaseModel):
    """The key of a configuration for a service that hands out credentials."""

    vend_credentials: bool = True
    """Whether the service is asked for credentials for the storage of a table, where `storage.*` holds none."""


def own_options(
    configured: Mapping[str, str], table: LiveTable, hosts: Collection[str] | None = None
) -> dict[str, str]:
    """Return the ``configured`` options, with what the ``storage.*`` properties of ``table`` say about opening it.

    Whoever writes to the catalog says those: see :func:`options_of_service`.
    """
    said = {key.removeprefix(_STORAGE): value for key, value in table.properties.items() if key.startswith(_STORAGE)}
    taken = options_of_service(said, table.location, configured, hosts, brings_hosts=False)
    return {key: text for key, text in configured.items() if alias_of(key, table.location) not in taken} | taken


def with_vended(
    config: VendsCredentials,
    configured: Mapping[str, str],
    table: LiveTable,
    ask: Callable[[], Mapping[str, str]],
    hosts: Collection[str] | None = None,
) -> dict[str, str]:
    """Return the options for opening the dataset of ``table``: what ``ask`` hands out for it, below those configured.

    Nothing is asked where ``config`` says so, for a table on this machine, nor where the ``configured`` options say who
    opens: credentials of two kinds are not mixed. Where the service hands out none, for whatever reason of its own,
    those of the environment are left to open it, with a warning where it refused. What it names beside credentials is
    taken as :func:`options_of_service` says.

    Raises:
        UnauthenticatedError, ThrottlingError, ServiceUnavailableError: the service did not come to an answer.
    """
    is_local = storage.local_path(table.location) is not None
    if not config.vend_credentials or is_local or _says_who_opens(configured):
        return dict(configured)
    try:
        vended = ask()
    except (UnauthenticatedError, ThrottlingError, ServiceUnavailableError):
        raise
    except BackendError as error:
        if isinstance(error, (PermissionDeniedError, InternalError)):  # others say that it hands out none at all
            # The text of an answer that makes no sense might hold a part of what was handed out.
            said = str(error) if isinstance(error, PermissionDeniedError) else "its answer makes no sense"
            _log.warning("no credentials are handed out for table `%s`: %s. %s", join(table.id), said, _INSTEAD)
        return dict(configured)
    return {**options_of_service(vended, table.location, configured, hosts, brings_hosts=True), **configured}


def _says_who_opens(options: Mapping[str, str]) -> bool:
    return any(is_sensitive_key(key) or _WHO_OPENS.fullmatch(key) for key in options)
