"""The changes that a pull request makes to the `config` of catalogs.

They are shown first, since credentials go where ``config`` says. The manifest of the base is assembled from GitHub's
API: the tree of its commit says which files are unchanged, and only the others are fetched. No placeholder of either
manifest is resolved.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from reconciler.action.api import GitHubError
from reconciler.action.approval import ConfigChanges
from reconciler.action.job import Job
from reconciler.action.pages import cut, fenced
from reconciler.manifest import (
    UNTRUSTED,
    VARIABLES_FILE,
    Manifest,
    ManifestCatalog,
    files_read_by,
    folders_of,
    read_variables,
)
from reconciler.model import display
from reconciler.model.errors import ManifestError
from reconciler.model.redaction import is_sensitive_key, redact_value
from reconciler.operations.manifests import load
from reconciler.output.markdown_text import length_of

_SUFFIXES = (".yaml", ".yml")
_MOST_FETCHED = 200
_LONGEST_LINE = 400
_LONGEST_BLOCK = 20_000
_INTRODUCTION = (
    "### ! How catalogs are reached changes\n\nCredentials go where `config` says. Check these lines before anything "
    "else:\n\n"
)


def config_changes(job: Job) -> ConfigChanges:
    """Return every ``config`` that differs from the base of the pull request.

    What cannot be compared is reported and does not stop the plan.

    Raises:
        ManifestError: the manifest itself cannot be used.
    """
    pull_request = job.context.pull_request
    if pull_request is None:
        return ConfigChanges()
    manifest = job.manifest
    try:
        groups = list(_compared(job, manifest, pull_request.base_commit))
    except (GitHubError, OSError) as error:
        why = f"! the base of the pull request could not be read, so every `config` may be new: {error}"
        return ConfigChanges(_block([display.message(why)]), whole=False)
    if not groups:
        return ConfigChanges()
    room = _LONGEST_BLOCK // len(groups)  # each group keeps its share
    shown = [cut((display.shorten(line, _LONGEST_LINE) for line in group), room) for group in groups]
    lines = [*chain.from_iterable(shown)]
    return ConfigChanges(_block(lines), whole=shown == groups and length_of("\n".join(lines)) < 2 * _LONGEST_BLOCK)


def _block(lines: Iterable[str]) -> str:
    return f"{_INTRODUCTION}{fenced(lines, 'diff', 2 * _LONGEST_BLOCK)}\n\n"


def _compared(job: Job, manifest: Manifest, commit: str) -> Iterator[Sequence[str]]:
    """Yield the differences of each catalog and file of variables."""
    answer = job.github.get(f"/git/trees/{commit}?recursive=1")
    tree = {str(item["path"]): str(item["sha"]) for item in answer.get("tree", []) if item.get("type") == "blob"}
    with tempfile.TemporaryDirectory() as folder:
        base = "it has too many files" if answer.get("truncated") else _base(job, tree, Path(folder))
        if isinstance(base, str):
            yield [f"! the manifest of the base could not be read, so every `config` counts as new: {base}"]
        texts = {} if isinstance(base, str) else _texts(base)
        before = {manifest.expanded(name): text for name, text in texts.items()}
        for name, now in sorted(_texts(manifest).items()):
            was = before.get(name, {})
            lines = [line for key in sorted({*was, *now}) for line in _differing(key, was.get(key), now.get(key), key)]
            lines += _files_differing(job, manifest.catalogs[name], tree)
            if lines:
                yield [f"! catalog {display.printable(name)}{'' if name in before else ', which is new'}", *lines]
        top = os.path.realpath(job.context.workspace)
        beside = [
            Path(os.path.relpath(parent, top), VARIABLES_FILE).as_posix() for parent in folders_of(job.inputs.manifest)
        ]
        for path in dict.fromkeys((*job.key.files, *beside)):
            lines = [*_variables_differing(job, manifest, tree, path, Path(folder, "variables"))]
            new = "" if path in tree else ", which is new"
            if lines:
                yield [f"! the variables in {display.printable(path)}{new}", *lines]


def _variables_differing(
    job: Job, manifest: Manifest, tree: Mapping[str, str], path: str, scratch: Path
) -> Iterator[str]:
    """Yield the differing variables of a file that a ``config`` uses."""
    here = job.context.workspace / path
    if path.startswith("../"):
        return
    scratch.write_bytes(_content(job, here, tree[path])[0] if path in tree else b"")
    try:
        was = read_variables(str(scratch))
    except ManifestError:
        was = {}
    now = read_variables(str(here)) if here.is_file() else {}
    keys = defaultdict(set)
    for catalog in manifest.catalogs.values():
        for entry in catalog.config.entries:
            for part in entry.template:
                if not isinstance(part, str) and part.scheme == "var":
                    keys[part.name].add(entry.key)
    for name in sorted(keys):
        sensitive = next((key for key in sorted(keys[name]) if is_sensitive_key(key)), name)
        yield from _differing(name, was.get(name), now.get(name), sensitive)


def _texts(manifest: Manifest) -> dict[str, dict[str, str]]:
    return {
        name: {"impl": catalog.impl, **catalog.config.texts(manifest.folder)}
        for name, catalog in manifest.catalogs.items()
    }


def _differing(key: str, was: str | None, now: str | None, sensitive: str) -> Iterator[str]:
    """Yield the lines of a difference, redacted as for the key ``sensitive``."""
    for sign, text in (("-", was), ("+", now)) if was != now else ():
        if text is not None:
            yield f"{sign}   {display.key(key)}: {display.value(redact_value(sensitive, text))}"


def _files_differing(job: Job, catalog: ManifestCatalog, tree: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of differing files that a ``config`` reads."""
    workspace = os.path.realpath(job.context.workspace)
    for key, path in files_read_by(catalog.config):
        traversed = [os.path.relpath(hop, workspace) for hop in _paths_traversed(path)]
        inside = [Path(workspace, hop) for hop in traversed if not hop.startswith("..")]
        if any(_blob_of(hop) != tree.get(os.path.relpath(hop, workspace)) for hop in inside):
            shown = display.printable(os.path.relpath(path, workspace))
            yield f"!   {display.key(key)}: the content of the file `{shown}` changes"


def _paths_traversed(path: str) -> Iterator[str]:
    """Yield the symbolic links on the way to ``path``, then its real path."""
    yield from (str(step) for step in (*reversed(Path(path).parents), Path(path)) if step.is_symlink())
    yield os.path.realpath(path)


def _blob_of(path: Path) -> str | None:
    if path.is_symlink():
        return _blob(os.fsencode(path.readlink()))
    return _blob(path.read_bytes()) if path.is_file() else None


def _base(job: Job, tree: Mapping[str, str], folder: Path) -> Manifest | str:
    """Return the manifest of the base, or why it cannot be read."""
    workspace = Path(os.path.realpath(job.context.workspace))
    paths = [Path(os.path.relpath(os.path.realpath(path), workspace)) for path in job.inputs.manifest]
    if any(path.parts[:1] == ("..",) for path in paths):
        return "it lies outside the checkout"
    roots = [path if (workspace / path).is_dir() else path.parent for path in paths]
    fetched = 0
    for name, sha in tree.items():
        path = Path(name)
        if path.suffix not in _SUFFIXES or ".." in path.parts or not any(path.is_relative_to(root) for root in roots):
            continue
        data, is_other = _content(job, workspace / path, sha)
        fetched += is_other
        if fetched > _MOST_FETCHED:
            return f"more than {_MOST_FETCHED} of its files differ"
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    try:
        return load(*(folder / path for path in paths), policy=UNTRUSTED)
    except ManifestError as error:
        exists = all((folder / path).exists() for path in paths)
        return f"{len(error.problems)} errors in it" if exists else "it does not exist"


def _content(job: Job, here: Path, sha: str) -> tuple[bytes, bool]:
    """Return a file of the base, fetched if it differs from ``here``, and whether."""
    data = here.read_bytes() if here.is_file() else b""
    if _blob(data) == sha:
        return data, False
    return base64.b64decode(job.github.get(f"/git/blobs/{sha}")["content"]), True


def _blob(data: bytes) -> str:
    """Return the name that git gives a file with this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
