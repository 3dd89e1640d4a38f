"""Resolve AWS credentials without prompts, and report what is wrong with them.

botocore has its own errors for most problems of a profile or a role. This module translates the others, which Python
raises: a missing token file, or a credential process that prints something other than credentials.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reconciler.model.errors import InvalidInputError, UnauthenticatedError

if TYPE_CHECKING:
    from botocore.session import Session


NO_MFA = "the profile needs a code of an MFA device, which lancens cannot ask for; give the keys of a session instead"
"""Why a profile with MFA cannot be used, and the remedy."""


_EXPIRED = "the credentials have expired; renew them"
_UNKNOWN_KEYS = "AWS does not know these credentials; check the keys, the session token and {region}"
_UNSIGNED = "the request was not signed; {signing}"
_WRONG_SIGNATURE = "the signature does not fit; check the secret key, {region} and this machine's clock"
_REFUSALS = {
    "ExpiredToken": _EXPIRED,
    "IncompleteSignature": "the signature is incomplete; check the keys",
    "InvalidClientTokenId": _UNKNOWN_KEYS,
    "InvalidSignature": _WRONG_SIGNATURE,
    "MissingAuthenticationToken": _UNSIGNED,
    "OptInRequired": "the account is not enabled for this region",
    "RequestExpired": "the request was signed too long ago; check this machine's clock",
    "SignatureDoesNotMatch": _WRONG_SIGNATURE,
    "UnrecognizedClient": _UNKNOWN_KEYS,
}


def plain_code(code: str) -> str:
    """Return an error code of AWS without the suffix ``Exception``.

    Only some services add it.
    """
    return code.removesuffix("Exception")


def login_refusal(code: str, *, region: str, signing: str) -> str | None:
    """Return why AWS refuses the credentials; None for another error code.

    AWS's texts may quote the signed request, which holds the session token.

    Args:
        code: the error code.
        region: what to check where the region may be wrong.
        signing: what to do where a request was not signed.
    """
    template = _REFUSALS.get(plain_code(code))
    return None if template is None else f"{template.format(region=region, signing=signing)} ({code})"


def session_without_questions(impl: str) -> Session:
    """Return a session of botocore that raises instead of prompting for an MFA code.

    A prompt would appear in the middle of a plan, and block forever where no person is there.

    Raises:
        BotoCoreError: the profile or the configuration of AWS cannot be used.
    """
    from botocore.credentials import CredentialProvider
    from botocore.session import get_session

    _keep_credentials_out_of_logs()
    session = get_session()

    class NoQuestions(CredentialProvider):
        METHOD = "no-questions"

        def load(self) -> None:
            if any("mfa_serial" in profile for profile in _role_profiles(session)):
                raise UnauthenticatedError(f"{impl}: {NO_MFA}")

    session.get_component("credential_provider").insert_before("assume-role", NoQuestions())
    return session


def _keep_credentials_out_of_logs() -> None:
    """Silence botocore's loggers that write credentials, unless their level is set."""
    for name, level in (("botocore", logging.INFO), ("botocore.credentials", logging.ERROR)):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(level)


def _role_profiles(session: Session) -> Iterator[Mapping[str, str]]:
    """Yield the profile in use, then its source profiles, while they have a role."""
    profiles = session.full_config.get("profiles", {})
    name, seen = session.get_config_variable("profile") or "default", set[str]()
    while name not in seen and "role_arn" in profiles.get(name, {}):
        seen.add(name)
        yield profiles[name]
        name = profiles[name].get("source_profile", "")


@contextmanager
def credential_errors(impl: str) -> Iterator[None]:
    """Translate Python's errors while AWS credentials are resolved, not botocore's.

    Raises:
        InvalidInputError: a file that the configuration of AWS names cannot be read.
        UnauthenticatedError: the source of the credentials returned something else.
    """
    from botocore.exceptions import BotoCoreError

    try:
        yield
    except BotoCoreError:
        raise  # some of them are an OSError, too
    except OSError as error:
        raise unreadable_file(impl, error) from None
    except (KeyError, TypeError, ValueError) as error:
        raise UnauthenticatedError(f"{impl}: cannot get the AWS credentials: {error}") from None


def unreadable_file(impl: str, error: OSError) -> InvalidInputError:
    """Return the error for an unreadable file that AWS's configuration names."""
    named = f": `{error.filename}`" if error.filename else ""
    return InvalidInputError(f"{impl}: a file for the AWS credentials cannot be read: {error.strerror or error}{named}")
