"""Read tests of a manifest: live states that somebody describes, and what their plans must and must not contain."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from glob import escape, glob
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from reconciler.manifest import VARIABLES_ONLY, Manifest, json_schema_of
from reconciler.manifest.blocks import BlockReader
from reconciler.manifest.models import Block, Boolean, ColumnBlock, NullText, OrNull, Text, TextMapping
from reconciler.manifest.nodes import Mapping as MappingNode
from reconciler.manifest.nodes import Node, Position, ScalarNode, entries_of
from reconciler.manifest.nodes import Sequence as SequenceNode
from reconciler.manifest.policy import UnreadableFileError, read_file
from reconciler.manifest.problems import Problems, SourceFile
from reconciler.manifest.reader import MAX_FILE_BYTES, read_document
from reconciler.manifest.variables import Resolver, is_unresolved
from reconciler.model import locations
from reconciler.model.desired import Source
from reconciler.model.display import did_you_mean
from reconciler.model.errors import LancensError
from reconciler.model.names import Identifier
from reconciler.model.reasons import NoteCode, ReasonCode
from reconciler.operations.manifests import load
from reconciler.planner.assumed import AssumedObject
from reconciler.planner.entries import Action

BLOCKED, PROTECTED, NOTE = "blocked", "protected", "note"
TABLE, NAMESPACE, DATA = _KINDS = ["table", "namespace", "data"]
_WORDS = [*(action.value for action in Action), BLOCKED, PROTECTED, NOTE]
_CODES = sorted(code.value for code in (*ReasonCode, *NoteCode))


def _one_of(words: Sequence[str]) -> BeforeValidator:
    def check(value: object) -> object:
        if value in words:
            return value
        raise ValueError(f"one such as `{words[0]}`; {did_you_mean(str(value), words)}".rstrip("; "))

    return BeforeValidator(check)


_ActionText: TypeAlias = Annotated[Text, _one_of(_WORDS), WithJsonSchema({"enum": _WORDS})]
_KindText: TypeAlias = Annotated[Text, _one_of(_KINDS), WithJsonSchema({"enum": _KINDS})]
_CodeText: TypeAlias = Annotated[Text, _one_of(_CODES), WithJsonSchema({"enum": _CODES})]
_OptionalText: TypeAlias = Annotated[
    Text | None, BeforeValidator(lambda value: None if isinstance(value, NullText) else value)
]
"""A text; null, which `list --format json` prints, counts as absent."""


class LiveBlock(Block):
    """A live object. What it leaves out is as the manifest wants it."""

    address: Text = Field(default="", examples=["lake/features/users"])
    """Its address: catalog, namespaces and name; of `data`, the table at whose default location it is."""
    kind: _KindText = Field(default=TABLE, examples=[TABLE, NAMESPACE, DATA])
    """`table`; `namespace`, of which those above a table need no entry; or `data`, a dataset without an entry."""
    location: _OptionalText = Field(default=None, examples=["s3://lake/users.lance", "./lake/users.lance"])
    """Where the data is; relative to the manifest's folder."""
    owner: _OptionalText = Field(default=None, examples=["feature-store/lake"])
    """The manifest and catalog that manage it, as `lancens list` prints it; nobody by default."""
    managed: Boolean = False
    """True: this manifest manages it."""
    mirror: _OptionalText = Field(default=None, examples=["lake"])
    """The catalog that the entry mirrors."""
    clone: _OptionalText = Field(default=None, examples=["prod/features/users@42"])
    """The table and version that its data was cloned from."""
    protect: Boolean | None = None
    """Whether it is protected from removal."""
    properties: TextMapping | None = Field(default=None, examples=[{"tier": "silver"}])
    """All its properties, without the marks of lancens."""
    schema_: OrNull[list[ColumnBlock]] | None = Field(default=None, alias="schema")
    """The columns of its data."""
    data: Boolean = True
    """False: nothing is stored at the location."""


class ExpectedBlock(Block):
    """Entries of a plan. A key that is left out matches all of them but notes, which change nothing."""

    action: _ActionText | None = Field(default=None, examples=["move-table", BLOCKED])
    """The action of a change, or `blocked`, `protected` or `note`."""
    address: Text = Field(default="**", examples=["lake/features/*"])
    """A glob of addresses, as for `--select`."""
    code: _CodeText | None = Field(default=None, examples=["data-lost"])
    """The reason's code, as `plan --format json` prints it."""


class TestBlock(Block):
    """One test: a live state, and what a plan of the manifest must and must not contain."""

    name: Text = Field(default="", examples=["a rename keeps the data"])
    """What the test shows."""
    live: OrNull[list[LiveBlock]] | Text | None = None
    """The live objects, or a file with the output of `lancens list --format json`; those of the file by default."""
    variables: TextMapping = Field(default={}, examples=[{"stage": "prod"}])
    """Values for `${var:NAME}`."""
    expect: OrNull[list[ExpectedBlock]] = Field(default=[])
    """The plan must have an entry that matches each of these."""
    reject: OrNull[list[ExpectedBlock]] = Field(default=[])
    """The plan must have no entry that matches one of these."""


class TestFile(Block):
    """A file of tests for `lancens test`."""

    manifest: Text = "../lancens.yaml"
    """The manifest, relative to this file: a file or a folder, below the folder above the tests or the current one."""
    live: OrNull[list[LiveBlock]] | Text | None = None
    """The live objects of all tests that have none of their own."""
    tests: list[TestBlock] = Field(default=[])
    """The tests."""


class Expectation(NamedTuple):
    """Entries that a plan must contain, or must not."""

    entries: ExpectedBlock
    is_wanted: bool
    source: Source


class PlanTest(NamedTuple):
    """One test, with its live objects and their `kind`."""

    name: str
    manifest: Manifest
    live: Sequence[tuple[str, AssumedObject]]
    expectations: Sequence[Expectation]


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a file of tests."""
    return json_schema_of(TestFile, "lancens test")


def find_files(paths: Sequence[str]) -> list[str]:
    """Return the files of tests at ``paths``; of a folder, those in it.

    Raises:
        LancensError: there is none.
    """
    files: list[str] = []
    for path in paths:
        names = sorted(glob(f"{escape(path)}/*.y*ml")) if os.path.isdir(path) else [path]  # noqa: PTH112, PTH207
        if not names or not os.path.exists(names[0]):  # noqa: PTH110
            raise LancensError(f"no tests in {path}: expected YAML files, such as tests/rename.yaml")
        files += names
    return files


def read_tests(path: str, *, allow_outside: bool = False) -> list[PlanTest]:
    """Return the tests in a file.

    Raises:
        ManifestError: with every error of the file, or of a manifest that it tests.
    """
    return _FileReader(path, allow_outside).tests()


class _FileReader:
    """Reads one file; each test with the variables of its manifest."""

    def __init__(self, path: str, allow_outside: bool) -> None:
        self._path, self._folder = path, Path(path).parent
        self._policy = replace(VARIABLES_ONLY, outside=allow_outside)
        self._problems = Problems()

    def tests(self) -> list[PlanTest]:
        root = self._document(self._path)
        top = self._blocks({}).read(TestFile, root, "the file", ("live", "tests")) or TestFile()
        nodes = self._items(root.get("tests"), "`tests`")
        if not nodes and not len(self._problems):
            self._problems.add_at(root.position, "no tests; expected `tests`, a list")
        self._check_place(top.manifest, (root.get("manifest") or root).position)
        tests = [self._test(top.manifest, root.get("live"), node, f"test {at}") for at, node in enumerate(nodes, 1)]
        self._problems.raise_if_any()
        return tests

    def _test(self, path: str, live: Node | None, node: Node, subject: str) -> PlanTest:
        parts, known = ("live", "expect", "reject"), len(self._problems)
        block = self._blocks({}).read(TestBlock, node, subject, parts) or TestBlock()
        manifest = load(self._folder / path, variables=block.variables, policy=self._policy)
        blocks, entries = self._blocks(manifest.variables), entries_of(node)
        objects = self._live(blocks, entries.get("live", live), manifest)
        expectations = [
            self._expectation(blocks, item, is_wanted)
            for key, is_wanted in (("expect", True), ("reject", False))
            for item in self._items(entries.get(key), f"`{key}` in {subject}")
        ]
        if not expectations and len(self._problems) == known:
            self._problems.add_at(node.position, f"{subject} has neither `expect` nor `reject`")
        return PlanTest(block.name or subject, manifest, objects, expectations)

    def _check_place(self, path: str, position: Position) -> None:
        """Raise ManifestError for a manifest outside of the folders around the tests and of this process."""
        folders = (os.path.realpath(self._folder / ".."), os.path.realpath("."))
        if not self._policy.may_read(os.path.realpath(self._folder / path), folders):
            outside = "is outside of the folder above the tests and of the current one; --allow-outside lets it be read"
            self._problems.add_at(position, f"the manifest `{path}` {outside}")
            self._problems.raise_if_any()

    def _blocks(self, variables: Mapping[str, str]) -> BlockReader:
        return BlockReader(self._problems, Resolver(self._policy, variables))

    def _document(self, path: str, before: bytes = b"", after: bytes = b"") -> MappingNode:
        self._problems.files.append(SourceFile(Path(path).as_posix(), str(self._folder)))
        try:
            data = before + read_file(path, MAX_FILE_BYTES) + after
        except UnreadableFileError as error:
            self._problems.add_in_file(path, f"cannot be read: {error}")
            data = b""
        document = read_document(data, len(self._problems.files) - 1, self._problems, "such as `tests`")
        self._problems.raise_if_any()
        return document or MappingNode(0, 0)

    def _items(self, node: Node | None, subject: str) -> Sequence[Node]:
        if isinstance(node, SequenceNode):
            return node
        if node is not None and not (isinstance(node, ScalarNode) and node.is_null):
            self._problems.add_at(node.position, f"{subject}: expected a list")
        return ()

    def _live(self, blocks: BlockReader, node: Node | None, manifest: Manifest) -> list[tuple[str, AssumedObject]]:
        if isinstance(node, ScalarNode) and not node.is_null:
            # A file that is one list has no keys: it becomes the value of one, in the same line.
            path = str(self._folder / node.text)
            if not self._policy.may_read(os.path.realpath(path), (os.path.realpath(self._folder), manifest.folder)):
                outside = "is outside of the folders of the tests and the manifest; --allow-outside lets it be read"
                self._problems.add_at(node.position, f"the file `{node.text}` {outside}")
                return []
            node = self._document(path, b'{"live": ', b"}").get("live")
        found, first = list[tuple[str, AssumedObject]](), dict[tuple[str, str, Identifier], Position]()
        for item in self._items(node, "`live`"):
            if (block := blocks.read(LiveBlock, item, "a live object")) is None:
                continue
            found.append((block.kind, self._object(blocks, block, item, manifest)))
            live = found[-1][1]
            before = first.setdefault((block.kind, live.catalog, live.identifier), item.position)
            if before != item.position and block.address:
                at = self._problems.locate(before)
                self._problems.add_at(item.position, f"`{block.address}` is a duplicate, first at {at}")
        return found

    def _object(self, blocks: BlockReader, block: LiveBlock, node: Node, manifest: Manifest) -> AssumedObject:
        name, _, path = block.address.partition("/")
        catalog, identifier = manifest.catalogs.get(name), None
        if catalog is not None and path:
            identifier = blocks.path(path, node.position, "a live object", catalog.config.implementation.capabilities)
        elif block.address or block.kind != DATA or block.location is None:
            expected = f"expected one below {', '.join(manifest.catalogs)}"
            hint = expected if catalog is not None else did_you_mean(name, manifest.catalogs, expected)
            self._problems.add_at(node.position, f"`{block.address}` is not the address of an object; {hint}")
        columns = entries_of(node).get("schema")
        return AssumedObject(
            catalog=name,
            identifier=identifier or (),
            location=_absolute(block.location, manifest.folder),
            schema=blocks.columns(block.schema_, columns, "a live object") if block.schema_ and columns else None,
            **block.model_dump(include={"owner", "managed", "mirror", "clone", "protect", "properties", "data"}),
        )

    def _expectation(self, blocks: BlockReader, node: Node, is_wanted: bool) -> Expectation:
        block = blocks.read(ExpectedBlock, node, "an entry of `expect`" if is_wanted else "an entry of `reject`")
        return Expectation(block or ExpectedBlock(), is_wanted, self._problems.source(node.position))


def _absolute(location: str | None, folder: str) -> str | None:
    """Return a location as the manifest has it; one with a placeholder stays as written."""
    return location if location is None or is_unresolved(location) else locations.absolute(location, folder)
