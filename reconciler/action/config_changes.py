"""Find the changes that a pull request makes to the `config` of catalogs.

They are shown first, since credentials go where ``config`` says. The manifest of the base branch is assembled in a
temporary folder: the tree of the base commit, from GitHub's API, says which files of the checkout are unchanged, and
only the others are fetched. No placeholder of either manifest is resolved.
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
from reconciler.action.pages import cut_code_block, cut_lines
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
from reconciler.operations.revisions import manifest_in, names_of_variable_files
from reconciler.output.markdown_text import length_of

_SUFFIXES = (".yaml", ".yml")
_MOST_FETCHED = 200
_LONGEST_LINE = 400
_LONGEST_BLOCK = 20_000
_INTRODUCTION = (
    "### ! How catalogs are reached changes\n\nCredentials go where `config` says. Check these lines before anything "
    "else:\n\n"
)


def find_config_changes(job: Job) -> ConfigChanges:
    """Return how every ``config`` differs from the base, as Markdown.

    If the base cannot be read, the text says so, and the plan goes on.

    Raises:
        ManifestError: the manifest itself cannot be used.
    """
    pull_request = job.context.pull_request
    if pull_request is None:
        return ConfigChanges()
    manifest = job.manifest
    try:
        groups = list(_differences(job, manifest, pull_request.base_commit))
    except (GitHubError, OSError) as error:
        line = f"! the base of the pull request could not be read, so every `config` may be new: {error}"
        return ConfigChanges(_section([display.message(line)]), is_complete=False)
    if not groups:
        return ConfigChanges()
    limit = _LONGEST_BLOCK // len(groups)  # the same for each catalog and file, so that none hides another
    cut_groups = [cut_lines((display.shorten(line, _LONGEST_LINE) for line in group), limit) for group in groups]
    lines = [*chain.from_iterable(cut_groups)]
    is_complete = cut_groups == groups and length_of("\n".join(lines)) < 2 * _LONGEST_BLOCK
    return ConfigChanges(_section(lines), is_complete)


def _section(lines: Iterable[str]) -> str:
    return f"{_INTRODUCTION}{cut_code_block(lines, 'diff', 2 * _LONGEST_BLOCK)}\n\n"


def _differences(job: Job, manifest: Manifest, commit: str) -> Iterator[Sequence[str]]:
    """Yield the lines of each catalog and file of variables that differs."""
    document = job.github.get(f"/git/trees/{commit}?recursive=1")
    tree = {str(item["path"]): str(item["sha"]) for item in document.get("tree", []) if item.get("type") == "blob"}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as apart:
        base = "it has too many files" if document.get("truncated") else _load_base(job, tree, Path(folder))
        if isinstance(base, str):
            yield [f"! the manifest of the base could not be read, so every `config` counts as new: {base}"]
        if not isinstance(base, str):
            top = os.path.realpath(job.context.workspace)
            job.earlier_manifest = manifest_in(
                os.path.realpath(folder),
                top,
                [os.path.realpath(path) for path in job.inputs.manifest],  # a base has no links
                variables=job.variables,
                policy=job.manifest_policy(),
            )
        texts = {} if isinstance(base, str) else _config_texts(base)
        base_texts = {manifest.expanded(name): text for name, text in texts.items()}
        for name, after in sorted(_config_texts(manifest).items()):
            before = base_texts.get(name, {})
            keys = sorted({*before, *after})
            lines = [line for key in keys for line in _diff_lines(key, before.get(key), after.get(key), key)]
            files = [*_changed_files(job, manifest.catalogs[name], tree)]
            if files:  # the catalog may be another one
                job.earlier_manifest = None
            lines += files
            if lines:
                yield [f"! catalog {display.printable(name)}{'' if name in base_texts else ', which is new'}", *lines]
        top = os.path.realpath(job.context.workspace)
        default_files = [
            Path(os.path.relpath(parent, top), VARIABLES_FILE).as_posix() for parent in folders_of(job.inputs.manifest)
        ]
        for path in dict.fromkeys((*job.key.files, *default_files)):
            lines = [*_changed_variables(job, manifest, tree, path, Path(apart, "variables"))]
            suffix = "" if path in tree else ", which is new"
            if lines:
                yield [f"! the variables in {display.printable(path)}{suffix}", *lines]


def _changed_variables(
    job: Job, manifest: Manifest, tree: Mapping[str, str], path: str, scratch: Path
) -> Iterator[str]:
    """Yield the lines of changed variables in ``path`` that a ``config`` uses.

    ``tree`` has the names that git gives the contents of the base's files, ``scratch`` is a file to overwrite.
    """
    file = job.context.workspace / path
    if path.startswith("../"):
        return
    scratch.write_bytes(_base_content(job, file, tree[path])[0] if path in tree else b"")
    try:
        before = read_variables(str(scratch))
    except ManifestError:
        before = {}
    after = read_variables(str(file)) if file.is_file() else {}
    config_keys = defaultdict(set)
    for catalog in manifest.catalogs.values():
        for entry in catalog.config.entries:
            for part in entry.template:
                if not isinstance(part, str) and part.scheme == "var":
                    config_keys[part.name].add(entry.key)
    for name in sorted(config_keys):
        redact_as = next((key for key in sorted(config_keys[name]) if is_sensitive_key(key)), name)
        yield from _diff_lines(name, before.get(name), after.get(name), redact_as)


def _config_texts(manifest: Manifest) -> dict[str, dict[str, str]]:
    """Return the `impl` and the `config` of each catalog as they are written, by key."""
    return {
        name: {"impl": catalog.impl, **catalog.config.relative_templates(manifest.folder)}
        for name, catalog in manifest.catalogs.items()
    }


def _diff_lines(key: str, before: str | None, after: str | None, redact_as: str) -> Iterator[str]:
    """Yield the old and the new line of a value that differs.

    Both are redacted as a value of the key ``redact_as``.
    """
    for sign, text in (("-", before), ("+", after)) if before != after else ():
        if text is not None:
            yield f"{sign}   {display.key(key)}: {display.value(redact_value(redact_as, text))}"


def _changed_files(job: Job, catalog: ManifestCatalog, tree: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each changed file that the ``config`` reads."""
    workspace = os.path.realpath(job.context.workspace)
    for key, path in files_read_by(catalog.config):
        traversed = [os.path.relpath(hop, workspace) for hop in _paths_traversed(path)]
        inside = [Path(workspace, hop) for hop in traversed if not hop.startswith("..")]
        if any(_blob_name_of(hop) != tree.get(os.path.relpath(hop, workspace)) for hop in inside):
            name = display.printable(os.path.relpath(path, workspace))
            yield f"!   {display.key(key)}: the content of the file `{name}` changes"


def _paths_traversed(path: str) -> Iterator[str]:
    """Yield the symbolic links on the way to ``path``, then its real path."""
    yield from (str(step) for step in (*reversed(Path(path).parents), Path(path)) if step.is_symlink())
    yield os.path.realpath(path)


def _blob_name_of(path: Path) -> str | None:
    """Return git's name of the content of a file or link; None without one."""
    if path.is_symlink():
        return _blob_name(os.fsencode(path.readlink()))
    return _blob_name(path.read_bytes()) if path.is_file() else None


def _load_base(job: Job, tree: Mapping[str, str], folder: Path) -> Manifest | str:
    """Return the manifest of the base, or why it cannot be read."""
    workspace = Path(os.path.realpath(job.context.workspace))
    paths = [Path(os.path.relpath(os.path.realpath(path), workspace)) for path in job.inputs.manifest]
    if any(path.parts[:1] == ("..",) for path in paths):
        return "it lies outside the checkout"
    roots = [path if (workspace / path).is_dir() else path.parent for path in paths]
    files = names_of_variable_files(job.variables, str(workspace))
    fetched = 0
    for name, sha in tree.items():
        path = Path(name)
        is_manifest = path.suffix in _SUFFIXES and any(path.is_relative_to(root) for root in roots)
        if ".." in path.parts or not (is_manifest or name in files):
            continue
        data, was_fetched = _base_content(job, workspace / path, sha)
        fetched += was_fetched
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


def _base_content(job: Job, checkout_file: Path, sha: str) -> tuple[bytes, bool]:
    """Return the content that git names ``sha``, and whether it was fetched.

    It is fetched if ``checkout_file`` has another content.
    """
    data = checkout_file.read_bytes() if checkout_file.is_file() else b""
    if _blob_name(data) == sha:
        return data, False
    return base64.b64decode(job.github.get(f"/git/blobs/{sha}")["content"]), True


def _blob_name(data: bytes) -> str:
    """Return the name that git gives a file with this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
