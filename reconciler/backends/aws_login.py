"""AWS's chain of credentials: asked without a question to anybody, and with every fault of it told.

botocore has errors of its own for most that can be wrong with a profile or a role. Those that it leaves to Python are
translated here: a token's file that is not there, a process that prints something else than credentials.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reconciler.model.errors import InvalidInputError, UnauthenticatedError

if TYPE_CHECKING:
    from botocore.session import Session


NO_MFA = "the profile asks for a code of an MFA device, which lancens does not: give a session's keys instead"
"""What to do where a profile needs somebody at the keyboard."""


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
    """Return an error code of AWS as it is common to its services: some put ``Exception`` behind it."""
    return code.removesuffix("Exception")


def login_refusal(code: str, *, region: str, signing: str) -> str | None:
    """Return what AWS refuses credentials for, in words of our own; None for another code.

    AWS's own texts may quote the signed request, and a session token with it.

    Args:
        code: the error code.
        region: what to check where the region may be wrong.
        signing: what to do where a request was not signed.
    """
    said = _REFUSALS.get(plain_code(code))
    return None if said is None else f"{said.format(region=region, signing=signing)} ({code})"


def session_without_questions(impl: str) -> Session:
    """Return a session of botocore that fails where it would ask for the code of an MFA device.

    A question would come in the middle of a plan, and wait for ever where nobody is there to answer.

    Raises:
        BotoCoreError: the profile or the configuration of AWS cannot be used.
    """
    from botocore.credentials import CredentialProvider
    from botocore.session import get_session

    session = get_session()

    class NoQuestions(CredentialProvider):
        METHOD = "no-questions"

        def load(self) -> None:
            if any("mfa_serial" in profile for profile in _roles(session)):
                raise UnauthenticatedError(f"{impl}: {NO_MFA}")

    session.get_component("credential_provider").insert_before("assume-role", NoQuestions())
    return session


def _roles(session: Session) -> Iterator[Mapping[str, str]]:
    """Yield the profile in use and those it takes its credentials from, as long as each assumes a role."""
    profiles = session.full_config.get("profiles", {})
    name, seen = session.get_config_variable("profile") or "default", set[str]()
    while name not in seen and "role_arn" in profiles.get(name, {}):
        seen.add(name)
        yield profiles[name]
        name = profiles[name].get("source_profile", "")


@contextmanager
def credential_faults_told(impl: str) -> Iterator[None]:
    """Translate what Python raises while credentials are got inside; errors of botocore pass.

    Raises:
        InvalidInputError: a file that the configuration of AWS names cannot be read.
        UnauthenticatedError: what gives the credentials answered something else.
    """
    from botocore.exceptions import BotoCoreError

    try:
        yield
    except BotoCoreError:
        raise  # some of them are an OSError, too
    except OSError as error:
        raise unreadable_file(impl, error) from None
    except (KeyError, TypeError, ValueError) as error:
        raise UnauthenticatedError(f"{impl}: the AWS credentials cannot be had: {error}") from None


def unreadable_file(impl: str, error: OSError) -> InvalidInputError:
    """Return the error for a file that AWS's configuration or environment names."""
    named = f": `{error.filename}`" if error.filename else ""
    return InvalidInputError(f"{impl}: a file for the AWS credentials cannot be read: {error.strerror or error}{named}")
