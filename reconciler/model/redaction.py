"""What no output may show: values that are secrets by their key or by their look, and the texts known to be secrets.

A stand-in takes the place of a value that is compared, and still tells two values apart. It is made by a slow hash
whose salt is the object and the key: guessing is slow and has to begin anew elsewhere, and the same states still give
the same bytes. Where nothing is compared there are no digits to guess from at all.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from urllib.parse import quote, quote_plus

from reconciler.model.ownership import recorded_secrets

REDACTED = "(redacted)"
_STAND_IN = re.compile(r"\(redacted(?: [0-9a-f]{8})?\)")
_SHORTEST_SECRET = 4

# scrypt with 16 MiB: some tens of milliseconds a guess (RFC 7914, section 2).
_COST = 2**14
_BLOCK = 8
_CACHED = 2**16

# ---- keys ------------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS = frozenset(
    {"authorization", "connectionstring", "connstr", "cookie", "passcode", "passphrase", "pwd", "sas", "token"}
)
_SECRET_ENDINGS = re.compile(
    r".*(?:passw(?:or)?ds?|secrets?|credentials?|(?:access|account|api|private|secret|shared|signing)keys?"
    r"|(?:access|api|auth|bearer|id|oauth|refresh|sas|security|session)token)"
)
_SECRET_PAIRS = frozenset(
    {
        *((kind, "key") for kind in ("access", "account", "api", "encryption", "private", "shared", "signing")),
        ("connection", "string"),
        ("pass", "word"),
    }
)
_AZURE = re.compile(r"(?:.*\.)?fs\.azure\..*", re.IGNORECASE | re.DOTALL)
# What language models read is called a token, too: how many there are, and which one ends a text, is nobody's secret.
_OF_LANGUAGE = frozenset(
    {"bos", "cls", "count", "eos", "length", "limit", "mask", "max", "min", "num", "pad", "sep", "size", "unk", "vocab"}
)


@lru_cache(_CACHED)
def is_sensitive_key(key: str) -> bool:
    """Return whether the value of a property named ``key`` is never shown; its whole words count.

    >>> is_sensitive_key("db.accessKey"), is_sensitive_key("tokenizer"), is_sensitive_key("max_tokens")
    (True, False, False)
    """
    words = [word.lower() for word in _WORD.findall(key)]
    secret = {word for word in words if word in _SECRET_WORDS or _SECRET_ENDINGS.fullmatch(word)}
    if secret == {"token"} and not _OF_LANGUAGE.isdisjoint(words):
        secret = set()
    return bool(secret) or not _SECRET_PAIRS.isdisjoint(pairwise(words)) or _AZURE.fullmatch(key) is not None


# ---- values ----------------------------------------------------------------------------------------------------------

_LOOKS_SECRET = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # an access key of AWS
    r"|\bgh[oprsu]_[A-Za-z0-9]{36}|\bgithub_pat_[A-Za-z0-9_]{22,}"
    r"|\bxox[abeprs]-[A-Za-z0-9-]{10,}"  # Slack
    r"|\bdapi[0-9a-f]{32}\b"  # Databricks
    r"|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\."  # a JSON web token
    r"|\b(?:Account|SharedAccess)Key=[^;\s]{8,}"  # a connection string of Azure
    r"|[?&]sig=[^&\s]{8,}|[?&]X-Amz-Signature="  # a signed address
    r"|\b(?i:bearer|basic) [A-Za-z0-9._~+/=-]{16,}"
    r"|\w://[^/\s:@]*:[^/\s@]+@",  # user information with a password
)


def is_sensitive(key: str, value: str) -> bool:
    """Return whether ``value`` is never shown: its key says so, or it looks like a credential."""
    return is_sensitive_key(key) or _LOOKS_SECRET.search(value) is not None


_SECRET_PREFIXES = ("storage.", "headers.")
_SETTING = re.compile(r"true|false|[0-9.]*", re.IGNORECASE)


def is_secret_config(key: str, value: str) -> bool:
    """Return whether the ``value`` of a configuration's ``key``, without the implementation's prefix, is never shown.

    What pylance and headers are told is, but for a number or a switch: those are in every other sentence.
    """
    told = key.startswith(_SECRET_PREFIXES) and not _SETTING.fullmatch(value)
    return told or is_sensitive(key, value)


def is_stand_in(value: str) -> bool:
    """Return whether ``value`` is what :func:`redact_value` puts in the place of a secret."""
    return value.startswith("(") and _STAND_IN.fullmatch(value) is not None


def is_hidden(key: str, value: str, shown: Mapping[str, str]) -> bool:
    """Return whether ``shown`` has all that a service which redacts secrets shows of ``value``, or of any other."""
    return shown.get(key) == REDACTED and (is_sensitive(key, value) or key in recorded_secrets(shown))


def redact_value(key: str, value: str, address: str | None = None, secret: Collection[str] = ()) -> str:
    """Return ``value``, or what stands in its place when it is a secret.

    A stand-in is returned as it is, so that a saved plan read back has the digest it was saved with.

    Args:
        key: the property's.
        value: as the catalog or the manifest has it.
        address: of the object that has it, for a stand-in that tells two values apart; without it, none does.
        secret: keys whose values are secrets whatever they are called.
    """
    if not (key in secret or is_sensitive(key, value)) or is_stand_in(value):
        return value
    if address is None:
        return REDACTED
    parent, _, name = address.rpartition("/")
    # Objects beside each other share the slow part: a secret that a thousand tables have is hashed once.
    slow = _slow(value, f"{parent}\0{key}")
    return f"(redacted {hmac.digest(slow, _bytes(name), 'sha256').hex()[:8]})"


def redact_properties(
    properties: Mapping[str, str], address: str | None = None, secret: Collection[str] = ()
) -> dict[str, str]:
    """Return ``properties`` with every sensitive value replaced (see :func:`redact_value`).

    Those of a live object say themselves which values lancens took from the environment or a file.
    """
    recorded = recorded_secrets(properties)
    secret = {*secret, *recorded} if recorded else secret
    return {
        key: redact_value(key, value, address, secret) if key in secret or is_sensitive(key, value) else value
        for key, value in properties.items()
    }


def slow_digest(value: str, salt: str) -> str:
    """Return a digest of ``value``, which may hold what can be guessed: each guess takes long."""
    return _slow(value, salt).hex()


@lru_cache(_CACHED)
def _slow(value: str, salt: str) -> bytes:
    return hashlib.scrypt(_bytes(value), salt=b"lancens\0" + _bytes(salt), n=_COST, r=_BLOCK, p=1, dklen=32)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# ---- texts -----------------------------------------------------------------------------------------------------------


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Return ``text`` with every known secret replaced, in any form in which services and logs repeat it.

    The longest goes first, so that none is left in part. Texts of fewer than four characters stay: they are everywhere.
    """
    known = {secret for secret in secrets if len(secret) >= _SHORTEST_SECRET}
    found = {form for secret in known for form in _forms(secret) if form in text}
    for form in sorted(found, key=len, reverse=True):
        text = text.replace(form, REDACTED)
    return text


@lru_cache(1024)
def _forms(secret: str) -> frozenset[str]:
    """Return ``secret`` as it is, URL-, form-, JSON- and base64-encoded, alone or within something longer."""
    quoted = {quote(secret, safe="", errors="replace"), quote(secret, errors="replace")}
    quoted.add(quote_plus(secret, errors="replace"))
    lower = {re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), form) for form in quoted}
    written = {json.dumps(secret, ensure_ascii=escaped)[1:-1] for escaped in (False, True)}
    return frozenset({secret, *quoted, *lower, *written, *_base64_forms(_bytes(secret))})


def _base64_forms(secret: bytes) -> Iterator[str]:
    """Yield base64 of ``secret`` in both alphabets, whole and as it stands behind one, two or three other bytes."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(secret).decode()
        for before in range(3):
            # Only the characters that hold nothing but bits of the secret: those beside it depend on what is there.
            first = -(-before * 8 // 6)
            last = (before + len(secret)) * 8 // 6
            whole = encode(bytes(before) + secret).decode()
            if last - first >= _SHORTEST_SECRET * 4 // 3:
                yield whole[first:last]
