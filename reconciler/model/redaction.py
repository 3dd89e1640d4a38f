"""Redaction: values that are secrets by their key or form, and texts known to be secrets.

A stand-in replaces a secret that is compared, and differs for different values. It is a slow hash, salted with the
object and the key: guesses are slow and cannot be reused elsewhere, and equal states give equal bytes. A secret that is
not compared is replaced without a hash.
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
from reconciler.model.secret_forms import REDACTED, looks_secret

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
# The tokens of language models: their number and special ones are no secrets.
_OF_LANGUAGE = frozenset(
    {"bos", "cls", "count", "eos", "length", "limit", "mask", "max", "min", "num", "pad", "sep", "size", "unk", "vocab"}
)


@lru_cache(_CACHED)
def is_sensitive_key(key: str) -> bool:
    """Return whether the value of a property named ``key`` is a secret, by the words of the key.

    >>> is_sensitive_key("db.accessKey"), is_sensitive_key("tokenizer"), is_sensitive_key("max_tokens")
    (True, False, False)
    """
    words = [word.lower() for word in _WORD.findall(key)]
    secret = {word for word in words if word in _SECRET_WORDS or _SECRET_ENDINGS.fullmatch(word)}
    if (secret == {"token"} and not _OF_LANGUAGE.isdisjoint(words)) or key.rpartition(".")[2] == "vend_credentials":
        secret = set()
    return bool(secret) or not _SECRET_PAIRS.isdisjoint(pairwise(words)) or _AZURE.fullmatch(key) is not None


# ---- values ----------------------------------------------------------------------------------------------------------


def is_sensitive(key: str, value: str) -> bool:
    """Return whether ``value`` is a secret, by its key or by its form."""
    if is_sensitive_key(key):
        return True
    return looks_secret(value)


SECRET_PREFIXES = ("storage.", "headers.")
"""The prefixes of keys of a configuration whose values are secrets unless they are numbers or switches."""

_SETTING = re.compile(r"true|false|[0-9.]*", re.IGNORECASE)


def is_secret_config(key: str, value: str) -> bool:
    """Return whether the ``value`` of a configuration's ``key``, without its prefix, is a secret.

    Storage options and headers are, unless they are numbers or switches: those occur in ordinary text.
    """
    is_option = key.startswith(SECRET_PREFIXES) and not _SETTING.fullmatch(value)
    return is_option or is_sensitive(key, value)


def is_stand_in(value: str) -> bool:
    """Return whether ``value`` is a stand-in from :func:`redact_value`."""
    return value.startswith("(") and _STAND_IN.fullmatch(value) is not None


def is_hidden(key: str, value: str, shown: Mapping[str, str]) -> bool:
    """Return whether ``shown`` comes from a service that redacts, so that ``value`` cannot be compared."""
    return shown.get(key) == REDACTED and (is_sensitive(key, value) or key in recorded_secrets(shown))


def redact_value(key: str, value: str, address: str | None = None, secret: Collection[str] = ()) -> str:
    """Return ``value``, or a stand-in if it is a secret.

    A stand-in is returned unchanged, so that a saved plan keeps its digest when it is read back.

    Args:
        key: of the property.
        value: of the property, in the catalog or the manifest.
        address: of the object, for a stand-in that differs for different values.
        secret: keys whose values are secrets, whatever their form.
    """
    if not (key in secret or is_sensitive(key, value)) or is_stand_in(value):
        return value
    if address is None:
        return REDACTED
    parent, _, name = address.rpartition("/")
    # Siblings share the slow part: a secret of a thousand tables is hashed once.
    slow = _slow(value, f"{parent}\0{key}")
    return f"(redacted {hmac.digest(slow, _bytes(name), 'sha256').hex()[:8]})"


def redact_properties(
    properties: Mapping[str, str], address: str | None = None, secret: Collection[str] = ()
) -> dict[str, str]:
    """Return ``properties`` with every sensitive value replaced (see :func:`redact_value`).

    A live object's properties record which values came from the environment or a file.
    """
    recorded = recorded_secrets(properties)
    secret = {*secret, *recorded} if recorded else secret
    return {key: redact_value(key, value, address, secret) for key, value in properties.items()}


def slow_digest(value: str, salt: str) -> str:
    """Return a digest of ``value`` that makes guessing slow."""
    return _slow(value, salt).hex()


def fast_digest(text: str, salt: str) -> str:
    """Return a digest of ``text``, which is no secret."""
    return hashlib.sha256(_bytes(f"{salt}\0{text}")).hexdigest()


@lru_cache(_CACHED)
def _slow(value: str, salt: str) -> bytes:
    return hashlib.scrypt(_bytes(value), salt=b"lancens\0" + _bytes(salt), n=_COST, r=_BLOCK, p=1, dklen=32)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# ---- texts -----------------------------------------------------------------------------------------------------------


_END = r"\s\"'<>"
_PART = "{0,500}"  # bounded, so that a long text takes linear time
_CREDENTIALS = re.compile(
    # In Azure's locations the container stands where others have user information; `ssh://git@…` is no secret.
    rf"(?<!abfs)(?<!abfss)(?<!wasb)(?<!wasbs)(?<!ssh)(://)[^{_END}/?#]{_PART}@"
    # A password may hold what ends an authority; a number behind the host is a port.
    rf"|(://)[^{_END}/?#:@]{_PART}:(?:[^{_END}/?#]{_PART}@|(?!\d*(?:[{_END}/?#]|$))[^{_END}]{_PART}@)"
    rf"|(%3A%2F%2F)(?:(?!%2F)[^{_END}/?#&]){_PART}%40"
    rf"|([?&](?:sig|signature|access_token|AWSAccessKeyId|X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token))=)"
    rf"[^{_END}&]+"
    r"|(\bbearer\s+)(?=\S{0,500}(?:\d|[._~+/=-]\w)|\S{16})[\w.~+/=-]{4,}",
    re.IGNORECASE,
)
"""Credentials by their form: in URLs, plain or encoded, and in headers. The groups are what stays before them."""


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Return ``text`` with every known secret replaced, in all forms in which services and logs repeat it.

    The longest is replaced first, so that no part of one remains. Secrets under four characters stay: they occur in
    ordinary text. Other credentials, such as those in ``AWS_ENDPOINT_URL``, are recognised by their form.

    >>> scrub("no answer from http://me:pw@host:80/x?sig=abc", ())
    'no answer from http://(redacted)@host:80/x?sig=(redacted)'
    """
    known = {secret for secret in secrets if len(secret) >= _SHORTEST_SECRET}
    forms = {form for secret in known for form in _forms(secret) if form in text}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, REDACTED)
    return _CREDENTIALS.sub(_without_credentials, text)


def _without_credentials(match: re.Match[str]) -> str:
    before = match[match.lastindex or 0]
    return before + REDACTED + {"://": "@", "%3a%2f%2f": "%40"}.get(before.lower(), "")


@lru_cache(1024)
def _forms(secret: str) -> frozenset[str]:
    """Return ``secret`` plain, URL-, form-, JSON- and base64-encoded, alone or within a longer text."""
    quoted = {quote(secret, safe="", errors="replace"), quote(secret, errors="replace")}
    quoted.add(quote_plus(secret, errors="replace"))
    lower = {re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), form) for form in quoted}
    json_forms = {json.dumps(secret, ensure_ascii=escaped)[1:-1] for escaped in (False, True)}
    return frozenset({secret, *quoted, *lower, *json_forms, *_base64_forms(_bytes(secret))})


def _base64_forms(secret: bytes) -> Iterator[str]:
    """Yield base64 of ``secret`` in both alphabets, alone and after one or two other bytes."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(secret).decode()
        for before in range(3):
            # Only characters made of the secret's bits alone; the others depend on the neighbouring bytes.
            first = -(-before * 8 // 6)
            last = (before + len(secret)) * 8 // 6
            whole = encode(bytes(before) + secret).decode()
            if last - first >= _SHORTEST_SECRET * 4 // 3:
                yield whole[first:last]
