"""moto's S3 behind a guard: it takes requests that are signed with one key, and refuses every other one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import lance
import pyarrow as pa

from tests.servers.moto_s3 import s3_application, serving

__all__ = ["BUCKET", "KEY", "SECRET", "TOKEN", "GuardedS3", "guarded_s3"]

BUCKET = "vended"
KEY, SECRET, TOKEN = "ASIAVENDEDVENDED0001", "vended-secret-7b2f51c0", "vended-session-token-90aa"

_CREDENTIAL = re.compile(r"Credential=([^/]*)/")
_DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


@dataclass
class GuardedS3:
    """``seen`` are the access key and the session token of each request, refused ones included.

    ``before`` is called before each request is answered, until it returns False; not for those that it makes itself.
    ``denies`` says of a method and a path whether the key may not do that.
    """

    endpoint: str
    seen: list[tuple[str, str]] = field(default_factory=list)
    before: Callable[[], bool] | None = None
    denies: Callable[[str, str], bool] = lambda _method, _path: False

    @property
    def where(self) -> dict[str, str]:
        """The storage options that hold no credential."""
        return {"endpoint": self.endpoint, "region": "us-east-1", "allow_http": "true", "client_max_retries": "0"}

    @property
    def vended(self) -> dict[str, str]:
        """Those that are taken, under pylance's names."""
        return {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "aws_session_token": TOKEN}

    @cached_property
    def client(self) -> Any:
        """A client of boto3 with the key that is taken."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            aws_session_token=TOKEN,
        )

    def empty(self, below: str = "") -> None:
        """Remove the objects below a prefix, and forget how."""
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=below):
            for entry in page.get("Contents", ()):
                self.client.delete_object(Bucket=BUCKET, Key=entry["Key"])
        self.seen.clear()

    def write(self, name: str) -> str:
        """Write a dataset of two rows; return its location, and forget how."""
        place = f"s3://{BUCKET}/{name}.lance"
        rows, options = pa.table({"id": [1, 2]}), {**self.where, **self.vended}
        # moto keeps what earlier tests wrote.
        lance.write_dataset(rows, place, mode="overwrite", storage_options=options)
        self.seen.clear()
        return place


@contextmanager
def guarded_s3() -> Iterator[GuardedS3]:
    """Run the server, with :data:`BUCKET` in it, until the block ends."""
    inner = s3_application()
    found = GuardedS3("")
    seen = found.seen

    def guarded(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        signed = _CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
        seen.append((signed[1] if signed else "", environ.get("HTTP_X_AMZ_SECURITY_TOKEN", "")))
        act, found.before = found.before, None
        if act is not None and act():
            found.before = act
        if seen[-1] != (KEY, TOKEN) or found.denies(environ["REQUEST_METHOD"], environ["PATH_INFO"]):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start("403 Forbidden", [("Content-Type", "application/xml"), ("Content-Length", str(len(_DENIED)))])
            return [_DENIED]
        answer: Iterable[bytes] = inner(environ, start)
        return answer

    with serving(guarded) as found.endpoint:
        found.client.create_bucket(Bucket=BUCKET)
        found.empty()  # the servers of one process share their objects
        yield found
