"""A version that is put only where there is none, in each object store that pylance can do it in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

import lance
import pyarrow as pa
import pytest

from reconciler import storage
from reconciler.model import locations
from reconciler.model.columns import Column
from reconciler.model.errors import UnsupportedOperationError
from reconciler.storage.files import rename_new
from tests.servers.listening import http_server

HERE = {"file", "file+uring", "file-object-store", "shared-memory"}
CONDITIONS = {"if-none-match": "*", "x-goog-if-generation-match": "0"}


class _Store(BaseHTTPRequestHandler):
    """As much of the stores' APIs as writes a file: the lists are empty, nothing can be deleted."""

    protocol_version = "HTTP/1.1"
    files: ClassVar[dict[str, bytes]] = {}
    conditions: ClassVar[dict[str, dict[str, str]]] = {}

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = unquote(self.path).partition("?")
        status, answer = 200, b""
        if "list" in query:
            answer = b"<EnumerationResults><Blobs/></EnumerationResults>"
            if "list-type" in query:
                answer = b"<ListBucketResult/>"
        elif self.command == "PUT":
            self.conditions[path] = {key: text for key in CONDITIONS if (text := self.headers.get(key)) is not None}
            status = 412 if self.conditions[path] and path in self.files else 201
            if status == 201:
                self.files[path] = body
        elif self.command in ("GET", "HEAD") and path in self.files:
            answer = self.files[path]
        else:
            status = 404
        self.send_response(status)
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Mon, 02 Feb 2026 00:00:00 GMT")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815


@contextmanager
def _store() -> Iterator[str]:
    _Store.files.clear()
    _Store.conditions.clear()
    with http_server(_Store) as url:
        yield url


def _options(scheme: str, url: str) -> dict[str, str]:
    always = {"allow_http": "true", "client_max_retries": "0"}
    if scheme == "s3":
        return {**always, "endpoint": url, "region": "x", "aws_access_key_id": "A", "aws_secret_access_key": "B"}
    if scheme == "gs":
        key = {"gcs_base_url": url, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
        return {**always, "google_service_account_key": json.dumps(key)}
    return {**always, "azure_storage_account_name": "a", "azure_storage_account_key": "c2U=", "azure_endpoint": url}


@pytest.mark.parametrize("scheme", sorted(locations.CONDITIONAL))
def test_a_version_is_put_under_the_condition_of_pylances_own(scheme: str) -> None:
    place = "abfss://c@a.dfs.core.windows.net/t" if scheme == "abfss" else f"{scheme}://c/t"
    with _store() as url:
        options = _options(scheme, url)
        lance.write_dataset(pa.table({"id": [1]}), place, storage_options=options)
        [(path, condition)] = [(path, found) for path, found in _Store.conditions.items() if "_versions" in path]
        assert condition
        folder, _, first = path.rpartition("/")
        before = dict(_Store.files)

        _Store.files[f"{folder}/staged"] = b"others"
        with pytest.raises(OSError, match=r"412|[Pp]recondition|already exists"):
            rename_new(f"{place}/_versions", "staged", first, options)
        assert {path: _Store.files[path] for path in before} == before

        rename_new(f"{place}/_versions", "staged", "next.manifest", options)
        assert _Store.files[f"{folder}/next.manifest"] == b"others"
        assert _Store.conditions[f"{folder}/next.manifest"] == condition


def test_on_a_disk_the_version_of_another_writer_stays(tmp_path: Path) -> None:
    (tmp_path / "1.manifest").write_text("others")
    for new, kept in (("1.manifest", "others"), ("2.manifest", "ours")):
        (tmp_path / "staged").write_text("ours")
        with suppress(FileExistsError):
            rename_new(str(tmp_path), "staged", new, {})
        assert (tmp_path / new).read_text() == kept
        assert not (tmp_path / "staged").exists()
    with pytest.raises(FileNotFoundError):
        rename_new(str(tmp_path), "staged", "3.manifest", {})


@pytest.mark.parametrize("scheme", sorted(storage.SCHEMES - locations.CONDITIONAL.keys() - HERE))
def test_no_column_is_changed_where_pylance_has_no_condition(scheme: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=r"yourself with pylance.*or keep the data"):
        storage.add_columns(f"{scheme}://b/t", [Column("added", "int64")], {})
