"""The versions of a dataset in a bucket of S3, each written only where there is none yet.

pylance's directory namespace does the same for datasets whose name ends in ``.lance``, and finds no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconciler.model import locations
from reconciler.model.errors import ConcurrentModificationError, InvalidTableStateError, MissingExtraError
from reconciler.storage.metadata import manifest_name, manifests

__all__ = ["BucketVersions"]

_ENCRYPTION = {
    "server_side_encryption": "ServerSideEncryption",
    "sse_kms_key_id": "SSEKMSKeyId",
    "sse_bucket_key_enabled": "BucketKeyEnabled",
}
_REACH = frozenset(
    {"access_key_id", "secret_access_key", "session_token", "token", "region", "default_region", "endpoint"}
    | {"endpoint_url", "endpoint_url_s3", "virtual_hosted_style_request", "skip_signature"}
)
_ONLY_PYLANCES = (
    "allow_http",
    "client_",
    "checksum_algorithm",
    "conditional_put",
    "connect_timeout",
    "copy_if",
    "timeout",
)
"""Options that say how pylance's own client works, and not where or as whom."""
_CODES_OF_ANOTHER = frozenset({"PreconditionFailed", "ConditionalRequestConflict"})


class BucketVersions:
    """What pylance asks of a namespace that keeps the versions of one dataset at ``location``.

    Raises:
        InvalidTableStateError: boto3 is not installed, or the options say what it is not told here.
    """

    def __init__(self, location: str, options: Mapping[str, str]) -> None:
        self._location, self._options = location, options
        self._bucket = locations.normalise(location).partition("://")[2].partition("/")[0]
        given = {_plain(key): text for key, text in options.items()}
        known = _REACH | {*_ENCRYPTION}
        unknown = [key for key in options if _plain(key) not in known and not _plain(key).startswith(_ONLY_PYLANCES)]
        if unknown:
            raise InvalidTableStateError(
                f"{locations.redact(location)}: columns are changed there with the storage option `{unknown[0]}` only "
                "in a dataset whose name ends in `.lance`"
            )
        self._encryption: dict[str, Any] = {name: given[key] for key, name in _ENCRYPTION.items() if key in given}
        if "BucketKeyEnabled" in self._encryption:
            self._encryption["BucketKeyEnabled"] = _is_on(given["sse_bucket_key_enabled"])
        self._client = _client(given)

    def list_table_versions(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the versions, latest first where the request says so."""
        found = sorted(manifests(self._location, self._options).items(), reverse=bool(request.get("descending")))
        return {"versions": [_version(*one) for one in found[: request.get("limit")]]}

    def describe_table_version(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return where the file of one version is."""
        version = request["version"]
        return {"version": _version(version, manifests(self._location, self._options)[version])}

    def create_table_version(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Give the file that pylance has written the name of its version.

        Raises:
            ConcurrentModificationError: another writer has made that version.
            OSError: the bucket refuses; it says why.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        staged, version = request["manifest_path"], request["version"]
        name = manifest_name(version, downwards=request["naming_scheme"] == "V2")
        path = f"{staged.rpartition('/')[0]}/{name}"
        try:
            content = self._client.get_object(Bucket=self._bucket, Key=staged)["Body"].read()
            made = self._client.put_object(
                Bucket=self._bucket, Key=path, Body=content, IfNoneMatch="*", **self._encryption
            )
            self._client.delete_object(Bucket=self._bucket, Key=staged)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _CODES_OF_ANOTHER:
                raise ConcurrentModificationError(f"version {version} is there already") from None
            raise OSError(str(error)) from None
        except BotoCoreError as error:
            raise OSError(str(error)) from None
        return {"version": _version(version, path, len(content), made.get("ETag"))}


def _version(version: int, path: str, size: int | None = None, etag: str | None = None) -> dict[str, Any]:
    return {"version": version, "manifest_path": path, "manifest_size": size, "e_tag": etag}


def _plain(key: str) -> str:
    """Return the name of an option without the prefix that pylance takes it with and without."""
    return key.lower().removeprefix("aws_")


def _client(given: Mapping[str, str]) -> Any:
    try:
        import boto3
        from botocore import UNSIGNED
        from botocore.config import Config
    except ImportError:
        missing = MissingExtraError(
            "a change of the columns of a dataset in S3 whose name does not end in `.lance`", "s3"
        )
        raise InvalidTableStateError(str(missing)) from None
    virtual = _is_on(given.get("virtual_hosted_style_request", ""))
    more: dict[str, Any] = {"signature_version": UNSIGNED} if _is_on(given.get("skip_signature", "")) else {}
    return boto3.client(
        "s3",
        endpoint_url=given.get("endpoint_url_s3") or given.get("endpoint_url") or given.get("endpoint"),
        region_name=given.get("region") or given.get("default_region"),
        aws_access_key_id=given.get("access_key_id"),
        aws_secret_access_key=given.get("secret_access_key"),
        aws_session_token=given.get("session_token") or given.get("token"),
        config=Config(s3={"addressing_style": "virtual" if virtual else "path"}, **more),
    )


def _is_on(text: str) -> bool:
    return text.strip().lower() in {"1", "true", "yes", "on", "t", "y"}
