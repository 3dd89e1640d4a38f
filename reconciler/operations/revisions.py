"""Load the manifest of another commit, and compare how both manifests reach their catalogs."""

from __future__ import annotations

import filecmp
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from reconciler.manifest import Manifest, Policy, read_variables
from reconciler.manifest.config import files_read_by
from reconciler.manifest.files import STDIN
from reconciler.manifest.policy import read_file
from reconciler.manifest.reader import MAX_FILE_BYTES
from reconciler.manifest.variables import FileValue, Placeholder
from reconciler.model.desired import DesiredCatalog, Source
from reconciler.model.errors import LancensError
from reconciler.operations.manifests import load
from reconciler.planner.mirrors import with_sources

_LINK_MODE = "120000 "
_SUFFIXES = (".yaml", ".yml")
_FILE_VALUE = re.compile(r"\$\{file:([^}]+?)(?::-[^}]*)?\}")


def manifest_at(
    revision: str, paths: Sequence[str | os.PathLike[str]], *, variables: Mapping[str, str], policy: Policy
) -> Manifest | str:
    """Return the manifest that ``paths`` had at a commit, with its includes and files, or why it had no valid one.

    Raises:
        LancensError: there is no such commit, or git cannot read it.
    """
    if STDIN in paths:
        raise LancensError("the manifest is on standard input, so no commit has an earlier one; name a file")
    real = [_without_links_above(path) for path in paths]
    start = next(folder for folder in (Path(real[0]), *Path(real[0]).parents) if folder.is_dir())
    top = os.path.realpath(_git(start, "rev-parse", "--show-toplevel").rstrip("\n"))
    try:
        commit = _git(top, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").strip()
    except LancensError:
        raise LancensError(f"git has no commit `{revision}` in {top}; fetch it, or name another one") from None
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.realpath(scratch)
        below = [path if Path(path).is_dir() else str(Path(path).parent) for path in real]
        files = names_of_variable_files(variables, top)
        _write_files(top, commit, folder, files, lambda name: policy.may_read(f"{top}/{name}", below))
        try:
            return _load_in(folder, top, real, variables=variables, policy=policy)
        except (LancensError, OSError) as error:
            return re.sub(rf"[^\s`]*{re.escape(Path(folder).name)}/", "", str(error).splitlines()[0])


def manifest_in(
    folder: str,
    top: str,
    paths: Sequence[str | os.PathLike[str]],
    *,
    variables: Mapping[str, str],
    policy: Policy,
) -> Manifest | None:
    """Return the manifest in ``folder``, which has files of another commit in place of those below ``top``.

    Its locations are those of this tree. Variables from files have the values of that commit. Catalogs that are reached
    by other files are left out, with their mirrors. None if it is not valid.
    """
    try:
        return _load_in(folder, top, paths, variables=variables, policy=policy)
    except (LancensError, OSError):
        return None


def _load_in(
    folder: str,
    top: str,
    paths: Sequence[str | os.PathLike[str]],
    *,
    variables: Mapping[str, str],
    policy: Policy,
) -> Manifest:
    """Return the manifest that :func:`manifest_in` describes.

    Raises:
        LancensError, OSError: it is not valid, or missing.
    """
    files = [name for name in names_of_variable_files(variables, top) if Path(folder, name).is_file()]
    read = {name: read_variables(str(Path(folder, name))) for name in files}
    earlier = {name: value for values in read.values() for name, value in values.items()}
    for name, value in variables.items():
        if not isinstance(value, FileValue):
            earlier[name] = FileValue.at(Source("", 0), value)  # that commit need not use it
            continue
        values = read.get(os.path.relpath(os.path.realpath(value.source.file), top), {name: value})
        earlier |= {name: values[name]} if name in values else {}
    inside = [Path(folder, os.path.relpath(_without_links_above(path), top)) for path in paths]
    manifest = load(*inside, variables=earlier, policy=policy)
    others = {
        name
        for name, catalog in manifest.catalogs.items()
        if any(_differs(path, folder, top) for _, path in files_read_by(catalog.config))
    }
    catalogs = {}
    for name, catalog in manifest.catalogs.items():
        if others & with_sources(manifest.sources, [name]):
            continue
        tables = {
            identifier: replace(table, location=top + table.location.removeprefix(folder))
            for identifier, table in catalog.desired.tables.items()
            if table.location is not None and table.location.startswith(f"{folder}/")
        }
        desired = replace(catalog.desired, tables={**catalog.desired.tables, **tables})
        catalogs[name] = replace(catalog, desired=desired)
    return replace(manifest, catalogs=catalogs)


def _without_links_above(path: str | os.PathLike[str]) -> str:
    """Return an absolute path whose folder has no links: the file itself may be one, with another target before."""
    return str(Path(path).parent.resolve() / Path(path).name) if Path(path).name else os.path.realpath(path)


def names_of_variable_files(variables: Mapping[str, str], top: str) -> list[str]:
    """Return the files below ``top`` that variables come from, relative to it."""
    paths = (os.path.realpath(value.source.file) for value in variables.values() if isinstance(value, FileValue))
    return [os.path.relpath(path, top) for path in dict.fromkeys(paths) if Path(path).is_relative_to(top)]


def shared_blocks(manifest: Manifest, base: Manifest, names: Sequence[str]) -> dict[str, DesiredCatalog]:
    """Return the blocks of ``base`` for each catalog in ``names`` that both manifests reach and read alike."""
    blocks = {name: base.catalogs[name].desired for name in names if _is_reached_alike(manifest, base, name)}
    return {name: desired for name, desired in blocks.items() if with_sources(base.sources, [name]) <= blocks.keys()}


def _is_reached_alike(manifest: Manifest, base: Manifest, name: str) -> bool:
    catalog, before = manifest.catalogs[name], base.catalogs.get(name)
    if before is None or (catalog.impl, catalog.desired.scope) != (before.impl, before.desired.scope):
        return False
    parts = (part for entry in catalog.config.entries for part in entry.template)
    variables = {part.name for part in parts if isinstance(part, Placeholder) and part.scheme == "var"}
    texts = (each.config.relative_templates(of.folder) for each, of in ((catalog, manifest), (before, base)))
    places = catalog.config.implementation.capabilities.namespace_places
    located = (
        {
            (identifier, key, value)
            for identifier, block in each.desired.namespaces.items()
            for key, value in block.properties.items()
            if key in places
        }
        for each in (catalog, before)
    )
    return (
        _are_equal(texts)
        and _are_equal(located)
        and all(manifest.variables.get(each) == base.variables.get(each) for each in variables)
    )


def _differs(earlier: str, folder: str, top: str) -> bool:
    """Return whether the file of a commit at ``earlier`` in ``folder`` has another content below ``top``."""
    if not (Path(earlier).is_relative_to(folder) and Path(earlier).is_file()):
        return False
    file = Path(top, os.path.relpath(earlier, folder))
    return not (file.is_file() and filecmp.cmp(earlier, file, shallow=False))


def _are_equal(both: Iterator[object]) -> bool:
    return next(both) == next(both)


def _write_files(top: str, commit: str, folder: str, files: Collection[str], is_wanted: Callable[[str], bool]) -> None:
    """Write ``files`` and the wanted YAML files of a commit, and those that they take values from, into ``folder``."""
    index = {"GIT_INDEX_FILE": f"{folder}/.git-index"}
    _git(top, "read-tree", commit, **index)
    listed = [entry.partition("\t") for entry in _git(top, "ls-files", "--stage", "-z", **index).split("\0")]
    names = {name for _, _, name in listed}
    links = [name for mode, _, name in listed if mode.startswith(_LINK_MODE) and (is_wanted(name) or name in files)]
    write = ("checkout-index", "-z", "--stdin", f"--prefix={folder}/")
    _git(top, *write, stdin="\0".join(links), **index)
    targets = {os.path.relpath(os.path.realpath(Path(folder, name)), folder) for name in links}
    manifests = {name for name in names if name in files or (name.endswith(_SUFFIXES) and is_wanted(name))}
    manifests = (manifests | (targets & names)).difference(links)
    _git(top, *write, stdin="\0".join(manifests), **index)
    values = {
        os.path.normpath(Path(name).parent / value)
        for name in manifests
        for value in _FILE_VALUE.findall(read_file(f"{folder}/{name}", MAX_FILE_BYTES).decode("utf-8", "replace"))
    }
    _git(top, *write, stdin="\0".join((values & names) - manifests), **index)


def _git(folder: str | Path, *arguments: str, stdin: str = "", **environment: str) -> str:
    inherited = dict(os.environ)
    if "GIT_WORK_TREE" not in inherited:  # in a hook, which has its own repository in GIT_DIR
        inherited.pop("GIT_DIR", None)
    try:
        done = subprocess.run(  # noqa: S603 - the user's own git, in the user's own repository
            ["git", "-C", folder, *arguments],  # noqa: S607
            input=os.fsencode(stdin),
            capture_output=True,
            check=False,
            env={**inherited, **environment},
        )
    except OSError as error:
        raise LancensError(f"git cannot be started, which reads the other commit: {error.strerror}") from None
    if done.returncode:
        first, *_ = [*os.fsdecode(done.stderr).strip().splitlines(), f"exit code {done.returncode}"]
        raise LancensError(f"git {arguments[0]}: {first}")
    return os.fsdecode(done.stdout)
