"""Read the files at a user's paths and their includes, and merge them into one document."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf
from glob import has_magic, iglob
from itertools import dropwhile, islice, takewhile
from pathlib import Path

from reconciler.manifest.expansion import expand_names
from reconciler.manifest.nodes import Mapping, Node, ScalarNode, Sequence, is_block
from reconciler.manifest.policy import MissingFileError, Policy, UnreadableFileError, read_file
from reconciler.manifest.problems import Problems, SourceFile
from reconciler.manifest.reader import MAX_FILE_BYTES, read_document
from reconciler.manifest.variables import FileValue, Resolver
from reconciler.model.errors import LancensError
from reconciler.model.pipes import read_file_or_pipe

_ADDRESS = re.compile(r"[\w-]+(?:/[\w-]+)+")
_SUFFIXES = (".yaml", ".yml")
_VARIABLES_SUFFIXES = (".vars.yaml", ".vars.yml")
VARIABLES_FILE = "lancens.vars.yaml"
"""The file of variables that is read if it is in the folder of the manifest."""
_MAX_FILES = 10_000
_OUTSIDE = "leads out of the manifest's folder; --allow-outside lets it be read"
_is_file, _is_dir = os.path.isfile, os.path.isdir  # unlike a Path's, these raise for no path
STDIN = "-"
"""The path of standard input; its relative paths start at the current folder."""
# Files may repeat these, as long as they agree.
_REPEATABLE = ("version", "name", "id")


def folders_of(paths: SequenceOf[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return the folders of ``paths``, links resolved."""
    return tuple(dict.fromkeys(map(_folder_of, map(Path, paths))))


def read_files(paths: SequenceOf[str | os.PathLike[str]], problems: Problems, resolver: Resolver) -> Content:
    """Return the merged content of ``paths`` and all they include, with the variables in names resolved.

    A folder means the YAML files directly in it without ``*.vars.yaml``, ``-`` standard input. A file that is reached
    twice is read once. Errors go to ``problems``; ``problems.files`` lists the files in the order they were read.
    Included files, and those in a folder, must be beneath the resolver's folders, unless its policy allows others.
    """
    content = Content(problems, resolver)
    for path in paths:
        content.add(os.fspath(path))
    return content


def _folder_of(path: Path) -> str:
    return os.path.realpath(path if _is_dir(path) else path.parent)


class Content:
    """The merged content ``root`` of all files read so far; ``complete`` is false if one could not be read."""

    def __init__(self, problems: Problems, resolver: Resolver) -> None:
        self._problems = problems
        self._resolver = resolver
        self._seen: set[str] = set()
        self._including: list[str] = []
        self.root = Mapping(0, 0)
        self.complete = True

    def add(self, text: str) -> None:
        """Read a path that the user gave."""
        path = Path(text)
        if text == STDIN or not _is_dir(path):
            self._read(os.path.realpath(text), text)
            return
        try:
            inside = sorted(entry for entry in path.iterdir() if _is_manifest(entry.name) and _is_file(entry))
        except OSError as error:
            self._problems.add_in_file(text, f"cannot be read: {error.strerror}")
            return
        if not inside:
            self._problems.add_in_file(
                text,
                "the folder holds no *.yaml and no *.yml file; `lancens import --impl dir --config root=PATH` "
                "writes a manifest of a folder of tables",
            )
        for entry in inside:
            if self._may_read(entry):
                self._read(os.path.realpath(entry), os.fspath(entry))
            else:
                self._problems.add_in_file(os.fspath(entry), _OUTSIDE)

    def _read(self, path: str, shown_path: str) -> None:
        if path in self._seen:
            return
        self._seen.add(path)
        data = self._read_bytes(path, shown_path)
        if data is None:
            self.complete = False
            return
        number = len(self._problems.files)
        name = Path(os.path.relpath(path)).as_posix()
        self._problems.files.append(SourceFile(name, str(Path(path).parent)))
        document = read_document(data, number, self._problems)
        may_expand = b"${" in data
        del data
        if document is None:
            self.complete = False
            return
        if may_expand:
            expand_names(document, self._problems, self._resolver)
        include = document.pop("include", None)
        self._merge(self.root, document, ())
        if include is not None:
            self._including.append(path)
            self._read_includes(include, Path(path).parent)
            self._including.pop()

    def _read_bytes(self, path: str, shown_path: str) -> bytes | None:
        if shown_path == STDIN:
            return sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        try:
            return read_file(path, MAX_FILE_BYTES)
        except UnreadableFileError as error:
            is_other = isinstance(error, MissingFileError) and not shown_path.endswith(_SUFFIXES)
            expected = "; a manifest is a *.yaml file, or a folder with some" if is_other else ""
            if is_other and _ADDRESS.fullmatch(shown_path):
                expected += f"; `--select {shown_path}` takes the address of a table"
            elif is_other and "/" not in shown_path:
                expected += f"; an environment is a file of variables: `--var-file {shown_path}.vars.yaml`"
            self._problems.add_in_file(shown_path, f"cannot be read: {error}{expected}")
            return None

    # ---- includes

    def _read_includes(self, include: Node, folder: Path) -> None:
        if not isinstance(include, Sequence):
            if not is_block(include):
                self._problems.add_at(
                    include.position, "`include` is not a list; expected paths such as [teams/*.yaml]"
                )
            return
        for item in include:
            if not isinstance(item, ScalarNode) or not item.text.strip():
                self._problems.add_at(item.position, "an include is not a path; expected text such as teams/*.yaml")
            elif "${" in item.text:
                self._problems.add_at(item.position, f"include `{item.text}`: placeholders do not work in `include`")
            else:
                for problem in self._read_include(item.text, folder):
                    self._problems.add_at(item.position, f"include `{item.text}` {problem}")

    def _read_include(self, pattern: str, folder: Path) -> Iterator[str]:
        """Read the files that ``pattern`` matches, and yield its errors."""
        if not self._may_read(folder / _fixed_part(pattern)):
            # No error may reveal whether a file outside exists.
            yield _OUTSIDE
            return
        if ".." in dropwhile(lambda part: not has_magic(part), Path(pattern).parts):
            # Each `**/..` would walk the whole tree again for every folder found.
            yield "goes up after a wildcard; write `..` before the first one"
            return
        names = _matches(pattern, folder)
        if not names:
            yield _no_match(pattern, folder)
        for name in names:
            path = os.path.realpath(folder / name)
            if not self._may_read(path):
                yield _OUTSIDE
                return
            if path in self._including:
                if not has_magic(pattern):
                    chain = " -> ".join(
                        Path(step).name for step in [*self._including[self._including.index(path) :], path]
                    )
                    yield f"makes a dependency cycle: {chain}"
            elif len(self._problems.files) >= _MAX_FILES:
                yield f"is one too many; a manifest has at most {_MAX_FILES:,} files"
                return
            else:
                self._read(path, name)

    def _may_read(self, path: str | Path) -> bool:
        return self._resolver.policy.may_read(os.path.realpath(path), self._resolver.folders)

    # ---- merging

    def _merge(self, into: Mapping, other: Mapping, path: tuple[str, ...]) -> None:
        for key, node in other.items():
            existing = into.setdefault(key, node)
            if existing is node:
                continue
            # The `moved` of a catalog is one list, and so are its `policies` and its `suppress`.
            is_listed = key in ("moved", "policies", "suppress") and len(path) == 2 and path[0] == "catalogs"
            is_repeated = key in _REPEATABLE and not path
            if is_block(existing) and is_block(node):
                if isinstance(existing, Mapping) and isinstance(node, Mapping):
                    self._merge(existing, node, (*path, key))
                elif isinstance(node, Mapping):
                    into[key] = node
            elif is_listed and isinstance(existing, Sequence) and isinstance(node, Sequence):
                existing += node
            elif not (is_repeated and _same_text(existing, node)):
                label, first = "/".join((*path, key)), self._problems.locate(existing.key_position)
                self._problems.add_at(node.key_position, f"`{label}` is a duplicate, first at {first}")


def _is_manifest(name: str) -> bool:
    return name.endswith(_SUFFIXES) and not name.endswith(_VARIABLES_SUFFIXES)


def _fixed_part(pattern: str) -> str:
    """Return the folder of all matches of ``pattern``, apart from links."""
    return os.path.join(*takewhile(lambda part: not has_magic(part), Path(os.path.normpath(pattern)).parts), "")  # noqa: PTH118


def _matches(pattern: str, folder: Path) -> list[str]:
    # Path.glob takes no absolute pattern, and matches hidden files.
    names = iglob(pattern, root_dir=folder, recursive=True) if has_magic(pattern) else [pattern]  # noqa: PTH207
    files = (name for name in islice(names, _MAX_FILES + 1) if _is_file(folder / name))
    return sorted(name for name in files if name == pattern or not name.endswith(_VARIABLES_SUFFIXES))


def _no_match(pattern: str, folder: Path) -> str:
    if has_magic(pattern):
        return "matches no file; patterns are relative to this file"
    if _is_dir(folder / pattern):
        return f"is a folder; expected files, such as {pattern.rstrip('/')}/*.yaml"
    return "does not exist; paths are relative to this file"


def _same_text(first: Node, second: Node) -> bool:
    return isinstance(first, ScalarNode) and isinstance(second, ScalarNode) and first.text == second.text


def read_variables_beside(folders: SequenceOf[str], policy: Policy) -> dict[str, str]:
    """Return the variables of ``lancens.vars.yaml`` in the manifest's folders; the first folder wins.

    Raises:
        LancensError, ManifestError: one cannot be used, or is a link out of the folders.
    """
    variables: dict[str, str] = {}
    for folder in reversed(folders):
        path = Path(os.path.relpath(Path(folder, VARIABLES_FILE))).as_posix()
        if not _is_file(path):
            continue
        if not policy.may_read(os.path.realpath(path), folders):
            raise LancensError(f"{path} {_OUTSIDE}")
        variables |= read_variables(path)
    return variables


def read_variables(path: str) -> dict[str, str]:
    """Return the variables in a file for ``--var-file``; values are the text as written.

    Raises:
        LancensError: the file cannot be read.
        ManifestError: it is not a block of names and texts; the message holds no value.
    """
    try:
        data = read_file_or_pipe(path, MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the path is not valid"
        raise LancensError(f"the variables in {path} cannot be read: {reason}") from None
    problems = Problems([SourceFile(path, str(Path(path).parent))])
    variables: dict[str, str] = {}
    for name, node in (read_document(data, 0, problems, "such as `region: eu-west-1`") or {}).items():
        if isinstance(node, ScalarNode):
            variables[name] = FileValue.at(problems.source(node.key_position), "" if node.is_null else node.text)
        else:
            problems.add_at(node.key_position, f"variable `{name}` is not text; expected `{name}: value`")
    problems.raise_if_any()
    return variables
