"""A lake of real datasets in two catalogs, a directory and a Hive Metastore, with defects planted in it.

Datasets are copies of a few that pylance wrote: with several versions, deletions, an index, or nothing in them. Each
kind of defect is planted several times in each catalog that can have it, among tables that are sound although they
look odd. What an audit should find is written down while planting.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa

from reconciler.model.names import Identifier, address
from reconciler.model.ownership import CLONE, KEYS, MANAGED_BY
from tests.catalogs.hive.raw import plain_table, raw
from tests.unit.pipeline.lossy import (
    commit_in_future,
    committed,
    lose_latest_and_hint,
    mix_formats,
    overlap_segments,
    overwrite,
    segmented,
    share_fragment_id,
    swap_fragment_ids,
)
from tests.unit.test_old_data import OLD_DATA

__all__ = ["DEFECTS", "LIMITS", "NAME", "ODD", "Catalog", "Planted", "Prototypes", "plant", "tree_of"]

NAME = "store"
SCHEMA = [{"name": "id", "type": "int64"}, {"name": "score", "type": "float64"}]
PROPERTIES = {"tier": "gold"}
LAKE, PROD = "lake", "prod"
LAKE_NAMESPACES: tuple[Identifier, ...] = (("sales",), ("sales", "eu"), ("ml",))
MANY_ROWS = 400
LIMITS: Mapping[str, int] = {
    "small_fragments": 6,
    "versions": 10,
    "reclaimable_mib": 1,
    "unindexed_rows": MANY_ROWS - 1,
}
"""The limits at which the datasets here are too much."""
DATABASES: tuple[Identifier, ...] = (("hive", "crm"), ("hive", "web"))


@dataclass
class Planted:
    """What was planted: the ``manifest``, the moment that parts stale from fresh, and the findings as (rule, address).

    ``deeper`` are those that only footers tell. ``tables`` are the live tables of each catalog; ``based`` those whose
    data names a base on this machine's disk.
    """

    manifest: Path
    cut: datetime
    datasets: int = 0
    tables: Counter[str] = field(default_factory=Counter)
    expected: Counter[tuple[str, str]] = field(default_factory=Counter)
    deeper: Counter[tuple[str, str]] = field(default_factory=Counter)
    based: list[str] = field(default_factory=list)


class Prototypes:
    """The datasets that all others are copies of."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._write("stale", 5)
        self.cut = datetime.now(UTC)
        self._write("plain", 10)
        self._write("empty", 0)
        grown = self._write("grown", 10)
        for _ in range(3):
            lance.write_dataset(_rows(5), grown, mode="append")
        lance.dataset(grown).delete("id < 3")
        indexed = self._write("indexed", 300)
        lance.dataset(indexed).create_scalar_index("id", "BTREE")
        lance.write_dataset(pa.table({"id": ["one"]}), str(folder / "other"))
        self.sound = ("plain", "empty", "grown", "indexed")
        lance.dataset(self._write("cleaning", 10)).update_config({"lance.auto_cleanup.interval": "1000"})
        crumbs = self._write("crumbs", 10)
        for _ in range(LIMITS["small_fragments"]):
            lance.write_dataset(_rows(1), crumbs, mode="append")
        rewritten = self._write("rewritten", 1)
        for _ in range(LIMITS["versions"]):
            lance.write_dataset(_rows(1), rewritten, mode="overwrite")
        wasteful = self._write("wasteful", 200_000 * LIMITS["reclaimable_mib"])
        lance.write_dataset(_rows(1), wasteful, mode="overwrite")
        vectors = pa.FixedSizeListArray.from_arrays(pa.array([0.5] * 4 * MANY_ROWS, pa.float32()), 4)
        lance.write_dataset(pa.table({"embedding": vectors}), str(folder / "vectors"))
        outdated = self._write("outdated", 100)
        lance.dataset(outdated).create_scalar_index("id", "BTREE")
        lance.write_dataset(_rows(MANY_ROWS), outdated, mode="append")
        for name in ("duplicate_fields", "miscounted"):
            shutil.copytree(OLD_DATA / f"{name}.lance", folder / name)
        committed(folder / "made").rename(folder / "committed")
        segmented(folder / "made").rename(folder / "segmented")
        schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("blob")])
        blobs = pa.table([pa.array([1]), lance.blob_array([b"x" * 100_000])], schema=schema)
        lance.write_dataset(blobs, str(folder / "blobs"), data_storage_version="2.2")

    def _write(self, name: str, rows: int) -> str:
        place = str(self._folder / name)
        lance.write_dataset(_rows(rows), place)
        return place

    def copy(self, name: str, place: Path) -> None:
        """Put a copy at ``place``; the files are shared, so what is spoilt has to be a file of its own."""
        shutil.copytree(self._folder / name, place, copy_function=os.link, dirs_exist_ok=True)


def _rows(number: int) -> pa.Table:
    generator = random.Random(number)  # what repeats would be encoded in next to nothing
    scores = [generator.random() for _ in range(number)]
    return pa.table({"id": pa.array(range(number), pa.int64()), "score": pa.array(scores, pa.float64())})


def _removed(place: Path, pattern: str) -> None:
    for path in place.glob(pattern):
        path.unlink()


def _cut(place: Path, pattern: str, keep: int) -> None:
    """Leave the first ``keep`` bytes of a file, which is no longer the prototype's then."""
    path = min(place.glob(pattern))
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:keep])


def _rename(place: Path, pattern: str) -> None:
    path = min(place.glob(pattern))
    path.rename(path.with_name("foreign.lance"))


def _corrupt(place: Path) -> None:
    """Damage the latest version, and that only."""
    newest = min(path for path in (place / "_versions").iterdir() if path.suffix == ".manifest")
    newest.unlink()
    newest.write_bytes(b"damaged")
    (place / "_versions/latest_version_hint.json").unlink(missing_ok=True)


@dataclass
class Catalog:
    """One catalog being filled; subclasses enter tables."""

    name: str
    root: Path
    namespaces: tuple[Identifier, ...]
    prototypes: Prototypes
    planted: Planted
    blocks: dict[Identifier, dict[str, Any]] = field(default_factory=dict)
    entries: dict[Identifier, tuple[str, dict[str, str]]] = field(default_factory=dict)
    _number: int = 0

    def new(self) -> tuple[Identifier, Path]:
        """Return a name that is not used yet, and a place for its data."""
        self._number += 1
        namespace = self.namespaces[self._number % len(self.namespaces)]
        return (*namespace, f"t{self._number:05}"), self.root / "data" / f"{self._number:05}.lance"

    def dataset(self, place: Path, prototype: str | None = None) -> Path:
        """Put a dataset at ``place``, of a kind that comes next if it does not matter."""
        kinds = self.prototypes.sound
        self.prototypes.copy(prototype or kinds[self.planted.datasets % len(kinds)], place)
        self.planted.datasets += 1
        return place

    def enter(self, identifier: Identifier, location: Path | str, **properties: str) -> None:
        """Enter a live table."""
        self.entries[identifier] = (str(location), properties)
        self.planted.tables[self.name] += 1

    def owned(self, identifier: Identifier, location: Path | str, **more: str) -> None:
        """Enter a live table exactly as its block says, which is put into the manifest."""
        marks = {MANAGED_BY: f"{NAME}/{self.name}", KEYS: json.dumps(sorted(PROPERTIES))}
        self.enter(identifier, location, **{**marks, **PROPERTIES, **more})
        self.blocks[identifier] = {"properties": dict(PROPERTIES)}

    def expect(self, rule: str, identifier: Iterable[str]) -> None:
        """Write down that ``rule`` finds something in a table."""
        self.planted.expected[rule, address(self.name, tuple(identifier))] += 1

    def _based(self, identifier: Iterable[str]) -> None:
        """Write down that a table's clone or branch names its base, which pylance does by the whole path."""
        self.planted.based.append(address(self.name, tuple(identifier)))

    # ---- what is sound although it looks odd --------------------------------------------------------------------

    def sound(self) -> None:
        identifier, place = self.new()
        self.owned(identifier, self.dataset(place))
        if self._number % 3 == 0:
            self.blocks[identifier]["schema"] = SCHEMA

    def reserved(self) -> None:
        identifier, place = self.new()
        place.mkdir(parents=True)
        (place / ".lance-reserved").touch()
        self.owned(identifier, place)

    def others(self) -> None:
        """A table that another manifest manages."""
        identifier, place = self.new()
        self.enter(identifier, self.dataset(place), **{MANAGED_BY: f"other/{self.name}"})

    def unmarked(self) -> None:
        """A table that equals its block, and that nobody marked."""
        identifier, place = self.new()
        self.enter(identifier, self.dataset(place), **PROPERTIES)
        self.blocks[identifier] = {"properties": dict(PROPERTIES)}

    def hidden(self) -> None:
        """Datasets that are no orphans: what a directory with `_` or `.` holds is somebody's own affair."""
        _, place = self.new()
        self.dataset(place.parent / "_staging" / place.name)
        self.dataset(place.parent / ".trash" / place.name)

    def cut_off(self) -> None:
        """The remains of a first write that was interrupted before its commit, without an entry."""
        _, place = self.new()
        (place / "_versions").mkdir(parents=True)
        (place / "data").mkdir()
        (place / "data/1.lance").touch()
        self.expect("unversioned-data", place.relative_to(self.root).parts)

    def lost_versions(self) -> None:
        """A dataset that nobody registered, without its versions."""
        _, place = self.new()
        shutil.rmtree(self.dataset(place, "plain") / "_versions")
        self.expect("unversioned-data", place.relative_to(self.root).parts)

    def unusual(self) -> None:
        """Datasets with files that their latest version does not name: a clone, branches and tags, blobs."""
        places: list[Path] = []
        for prototype in ("grown", "plain", "blobs"):
            identifier, place = self.new()
            self.owned(identifier, self.dataset(place, prototype))
            places.append(place)
            if prototype == "plain":
                self._based(identifier)
        grown, branched, _ = (lance.dataset(str(place)) for place in places)
        grown.tags.create("cloned", grown.version)
        branched.create_branch("trial")
        branched.tags.create("first", 1)
        identifier, place = self.new()
        grown.shallow_clone(str(place), grown.version)
        self.planted.datasets += 1
        self.owned(identifier, place)
        self._based(identifier)
        self.expect("reads-elsewhere", identifier)

    def untagged_clone(self) -> None:
        (based, original), (identifier, place) = self.new(), self.new()
        source = lance.dataset(str(self.dataset(original, "plain")))
        self.owned(based, original)
        source.shallow_clone(str(place), source.version)
        self.planted.datasets += 1
        self.owned(identifier, place)
        self._based(identifier)
        for rule in ("untagged-base", "reads-elsewhere"):
            self.expect(rule, identifier)

    def as_expected(self) -> None:
        """A table that is as its block expects."""
        identifier, place = self.new()
        self.owned(identifier, self.dataset(place, "indexed"))
        self.blocks[identifier]["expect"] = {
            "indices": ["id"],
            "max_fragments": 1,
            "max_versions": 2,
            "max_age_days": 500,
        }

    # ---- defects -------------------------------------------------------------------------------------------------

    def nowhere(self) -> None:
        identifier, place = self.new()
        self.owned(identifier, place)
        self.blocks[identifier]["schema"] = SCHEMA
        self.expect("dangling", identifier)

    def empty_directory(self) -> None:
        identifier, place = self.new()
        place.mkdir(parents=True)
        self.owned(identifier, place)
        self.expect("dangling", identifier)

    def other_files(self) -> None:
        identifier, place = self.new()
        place.mkdir(parents=True)
        (place / "part-0.csv").write_text("id\n1\n")
        self.owned(identifier, place)
        self.expect("not-lance", identifier)

    def corrupt(self) -> None:
        identifier, place = self.new()
        _corrupt(self.dataset(place, "grown"))
        self.owned(identifier, place)
        self.expect("unreadable", identifier)

    def shared(self) -> None:
        (one, place), (other, _) = self.new(), self.new()
        self.dataset(place)
        for identifier in (one, other):
            self.owned(identifier, place)
            self.expect("shared-location", identifier)

    def nested(self) -> None:
        (outer, place), (inner, _) = self.new(), self.new()
        self.owned(outer, self.dataset(place))
        self.owned(inner, self.dataset(place / "parts" / "inner.lance"))
        self.expect("nested-location", inner)

    def _damaged(self, rule: str, prototype: str, damage: Callable[[Path], None]) -> None:
        identifier, place = self.new()
        damage(self.dataset(place, prototype))
        self.owned(identifier, place)
        self.expect(rule, identifier)

    def without_data(self) -> None:
        self._damaged("missing-files", "plain", lambda place: _removed(place, "data/*.lance"))

    def without_deletions(self) -> None:
        self._damaged("missing-files", "grown", lambda place: _removed(place, "_deletions/*"))

    def without_index(self) -> None:
        self._damaged("missing-files", "indexed", lambda place: _removed(place, "_indices/*/*"))

    def short_data(self) -> None:
        self._damaged("short-files", "plain", lambda place: _cut(place, "data/*.lance", 100))

    def empty_deletions(self) -> None:
        self._damaged("short-files", "grown", lambda place: _cut(place, "_deletions/*", 0))

    def short_index(self) -> None:
        self._damaged("short-files", "indexed", lambda place: _cut(place, "_indices/*/*", 10))

    def broken_tag(self) -> None:
        """A tag whose version is gone, of a table that lacks a file as well."""
        identifier, place = self.new()
        lance.dataset(str(self.dataset(place, "rewritten"))).tags.create("keep", 1)
        oldest = max((place / "_versions").glob("*.manifest"))
        oldest.unlink()
        max(place.glob("data/*.lance"), key=lambda path: path.stat().st_mtime_ns).unlink()
        self.owned(identifier, place)
        for rule in ("broken-tag", "missing-files"):
            self.expect(rule, identifier)

    def without_latest_version(self) -> None:
        self._damaged("lost-version", "grown", lambda place: min((place / "_versions").glob("*.manifest")).unlink())

    def broken_branch(self) -> None:
        identifier, place = self.new()
        branch = lance.dataset(str(self.dataset(place))).create_branch("trial")
        lance.write_dataset(_rows(3), branch, mode="append")
        _removed(place, "tree/trial/data/*")
        self.owned(identifier, place)
        self._based(identifier)
        self.expect("broken-branch", identifier)

    def _branch_without_file(self, damage: Callable[[Path], object]) -> Identifier:
        identifier, place = self.new()
        lance.dataset(str(self.dataset(place, "plain"))).create_branch("trial")
        damage(place / "_refs")
        self.owned(identifier, place)
        self.expect("broken-branch", identifier)
        return identifier

    def damaged_branch_file(self) -> None:
        self._based(self._branch_without_file(lambda folder: (folder / "branches/trial.json").write_text("{")))

    def lost_references(self) -> None:
        """A branch that is not looked into, so that its base does not matter."""
        self._branch_without_file(shutil.rmtree)

    def without_latest_version_and_hint(self) -> None:
        self._damaged("lost-version", "committed", lose_latest_and_hint)

    def committed_in_future(self) -> None:
        self._damaged("future-commit", "committed", commit_in_future)

    def clone_without_its_original(self) -> None:
        (identifier, place), (_, original) = self.new(), self.new()
        source = lance.dataset(str(self.dataset(original, "plain")))  # of an empty one, a clone needs no file
        source.shallow_clone(str(place), source.version)
        shutil.rmtree(original)
        self.owned(identifier, place)
        self._based(identifier)
        for rule in ("missing-files", "reads-elsewhere"):
            self.expect(rule, identifier)

    def without_versions(self) -> None:
        self._damaged("unversioned-data", "plain", lambda place: shutil.rmtree(place / "_versions"))

    def _contradicting(self, rule: str, prototype: str) -> None:
        """Enter a dataset as pylance 0.8 or 0.10 left it, which is stale, too."""
        self._of_kind(rule, prototype)
        self.expect("stale", [*self.entries][-1])

    def _damaged_footer(self, prototype: str, pattern: str) -> None:
        identifier, place = self.new()
        overwrite(min(self.dataset(place, prototype).glob(pattern)), -40, bytes(40))
        self.owned(identifier, place)
        self.planted.deeper["damaged-files", address(self.name, identifier)] += 1

    def damaged_data(self) -> None:
        self._damaged_footer("plain", "data/*.lance")

    def damaged_index(self) -> None:
        self._damaged_footer("indexed", "_indices/*/*")

    def damaged_data_of_blobs(self) -> None:
        self._damaged("damaged-files", "blobs", lambda place: overwrite(min(place.glob("data/*.lance")), -12, b"\xff"))

    def foreign_index_file(self) -> None:
        self._damaged("missing-files", "indexed", lambda place: _rename(place, "_indices/*/page_data.lance"))

    def shared_fields(self) -> None:
        self._contradicting("shared-field-ids", "duplicate_fields")

    def miscounted(self) -> None:
        self._contradicting("wrong-row-counts", "miscounted")

    def shared_fragments(self) -> None:
        self._damaged("fragment-ids", "committed", share_fragment_id)

    def unsorted_fragments(self) -> None:
        self._damaged("fragment-ids", "committed", swap_fragment_ids)

    def mixed_formats(self) -> None:
        self._damaged("mixed-formats", "committed", mix_formats)

    def overlapping_index(self) -> None:
        self._damaged("overlapping-index", "segmented", overlap_segments)

    def _of_kind(self, rule: str, prototype: str, **expect: Any) -> None:
        identifier, place = self.new()
        self.owned(identifier, self.dataset(place, prototype))
        if expect:
            self.blocks[identifier]["expect"] = expect
        self.expect(rule, identifier)

    def crumbs(self) -> None:
        self._of_kind("small-fragments", "crumbs")

    def rewritten(self) -> None:
        self._of_kind("many-versions", "rewritten")

    def wasteful(self) -> None:
        self._of_kind("reclaimable", "wasteful")

    def cleaning(self) -> None:
        self._of_kind("auto-cleanup", "cleaning")

    def vectors(self) -> None:
        self._of_kind("unindexed-vectors", "vectors")

    def outdated(self) -> None:
        self._of_kind("stale-index", "outdated")

    def unexpected_fragments(self) -> None:
        self._of_kind("many-fragments", "grown", max_fragments=3)

    def unexpected_versions(self) -> None:
        self._of_kind("many-versions", "grown", max_versions=4)

    def unexpected_age(self) -> None:
        self._of_kind("stale", "stale", max_age_days=30)

    def unexpected_lack(self) -> None:
        self._of_kind("missing-index", "indexed", indices=["id", "score"])

    def still_there(self) -> None:
        identifier, place = self.new()
        self.owned(identifier, self.dataset(place))
        self.blocks[identifier] = {"absent": True}
        self.expect("still-there", identifier)

    def linked(self) -> None:
        identifier, place = self.new()
        link = place.parent / "links" / place.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(self.dataset(place))
        self.owned(identifier, link)
        self.expect("indirect-location", identifier)

    def linked_twice(self) -> None:
        (one, place), (other, _) = self.new(), self.new()
        link = place.parent / "links" / place.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(self.dataset(place))
        self.owned(one, place)
        self.owned(other, link)
        self.expect("indirect-location", other)
        for identifier in (one, other):
            self.expect("shared-location", identifier)

    def missing(self) -> None:
        identifier, _ = self.new()
        self.blocks[identifier] = {}
        self.expect("missing", identifier)

    def unmanaged(self) -> None:
        identifier, place = self.new()
        self.enter(identifier, self.dataset(place), color="red")
        self.expect("unmanaged", identifier)

    def unexpected_by_policy(self) -> None:
        """A table that nobody manages, in which a policy expects fewer fragments."""
        identifier, place = self.new()
        identifier = (*identifier[:-1], f"{identifier[-1]}_crowded")
        self.enter(identifier, self.dataset(place, "grown"))
        for rule in ("unmanaged", "many-fragments"):
            self.expect(rule, identifier)

    def drifted(self) -> None:
        identifier, place = self.new()
        self.owned(identifier, self.dataset(place), tier="silver")
        self.expect("property-drift", identifier)

    def taken(self) -> None:
        """A table that two manifests name."""
        identifier, place = self.new()
        self.owned(identifier, self.dataset(place), **{MANAGED_BY: f"other/{self.name}"})
        self.expect("property-drift", identifier)

    def moved(self) -> None:
        identifier, place = self.new()
        self.owned(identifier, self.dataset(place))
        self.blocks[identifier]["location"] = str(place.with_name(f"elsewhere-{place.name}"))
        self.expect("property-drift", identifier)

    def other_schema(self) -> None:
        identifier, place = self.new()
        self.owned(identifier, self.dataset(place, "other"))
        self.blocks[identifier]["schema"] = SCHEMA
        self.expect("schema-drift", identifier)

    def stale(self) -> None:
        identifier, place = self.new()
        self.owned(identifier, self.dataset(place, "stale"))
        self.expect("stale", identifier)

    def orphan(self) -> None:
        _, place = self.new()
        self._orphan(self.dataset(place))

    def deep_orphan(self) -> None:
        _, place = self.new()
        self._orphan(self.dataset(place.parent / "left" / "over 100%" / place.name))

    def damaged_orphan(self) -> None:
        _, place = self.new()
        _corrupt(self.dataset(place, "plain"))
        self._orphan(place)

    def _orphan(self, place: Path) -> None:
        self.expect("orphan", place.relative_to(self.root).parts)

    def two_defects(self) -> None:
        identifier, place = self.new()
        self.enter(identifier, self.dataset(place, "stale"))
        self.expect("stale", identifier)
        self.expect("unmanaged", identifier)


ODD: tuple[Callable[[Catalog], None], ...] = (
    Catalog.reserved,
    Catalog.others,
    Catalog.unmarked,
    Catalog.hidden,
    Catalog.unusual,
    Catalog.as_expected,
)
DEFECTS: tuple[Callable[[Catalog], None], ...] = (
    Catalog.nowhere,
    Catalog.empty_directory,
    Catalog.other_files,
    Catalog.corrupt,
    Catalog.cut_off,
    Catalog.lost_versions,
    Catalog.without_data,
    Catalog.without_deletions,
    Catalog.without_index,
    Catalog.short_data,
    Catalog.empty_deletions,
    Catalog.short_index,
    Catalog.broken_tag,
    Catalog.without_latest_version,
    Catalog.broken_branch,
    Catalog.damaged_branch_file,
    Catalog.lost_references,
    Catalog.without_latest_version_and_hint,
    Catalog.committed_in_future,
    Catalog.untagged_clone,
    Catalog.clone_without_its_original,
    Catalog.without_versions,
    Catalog.damaged_data,
    Catalog.damaged_index,
    Catalog.damaged_data_of_blobs,
    Catalog.foreign_index_file,
    Catalog.shared_fields,
    Catalog.miscounted,
    Catalog.shared_fragments,
    Catalog.unsorted_fragments,
    Catalog.mixed_formats,
    Catalog.overlapping_index,
    Catalog.crumbs,
    Catalog.rewritten,
    Catalog.wasteful,
    Catalog.cleaning,
    Catalog.vectors,
    Catalog.outdated,
    Catalog.unexpected_fragments,
    Catalog.unexpected_versions,
    Catalog.unexpected_age,
    Catalog.unexpected_lack,
    Catalog.still_there,
    Catalog.linked,
    Catalog.linked_twice,
    Catalog.shared,
    Catalog.nested,
    Catalog.missing,
    Catalog.unmanaged,
    Catalog.unexpected_by_policy,
    Catalog.drifted,
    Catalog.taken,
    Catalog.moved,
    Catalog.other_schema,
    Catalog.stale,
    Catalog.orphan,
    Catalog.deep_orphan,
    Catalog.damaged_orphan,
    Catalog.two_defects,
)


# ---- the two catalogs ------------------------------------------------------------------------------------------------


def _fill_lake(lake: Catalog, uses: int, outside: Path) -> None:
    """Plant what only a directory can have, and write the entries the way pylance keeps them, all at once."""
    for number in range(uses):
        known = lake.dataset(lake.root / f"listed{number}.lance")  # a table without an entry
        lake.planted.tables[lake.name] += 1
        lake.expect("unmanaged", [known.stem])
        gone = lake.dataset(lake.root / f"deregistered{number}.lance")
        (gone / ".lance-deregistered").touch()
        lake.expect("orphan", [gone.name])
        grouped = lake.dataset(lake.root / "group" / f"{number}.lance")
        lake.expect("orphan", ["group", grouped.name])
        identifier, _ = lake.new()
        lake.owned(identifier, f"hdfs://namenode/{number}.lance")
        lake.expect("unknown-scheme", identifier)
        identifier, _ = lake.new()  # Lance has a second name for local files, which no engine has
        lake.owned(identifier, f"file-object-store://{lake.dataset(outside / f'{number}.lance')}")
        lake.expect("scheme-mismatch", identifier)

    client = lance_namespace.connect("dir", {"root": str(lake.root)})
    for namespace in lake.namespaces:
        client.create_namespace(lance_namespace.CreateNamespaceRequest(id=list(namespace)))
    listing = lance.dataset(str(lake.root / "__manifest"))
    rows = [
        {
            "object_id": "$".join(identifier),
            "object_type": "table",
            "location": location.removeprefix(f"{lake.root}/"),
            "metadata": json.dumps(properties),
        }
        for identifier, (location, properties) in lake.entries.items()
    ]
    lance.write_dataset(pa.Table.from_pylist(rows, schema=listing.schema), listing.uri, mode="append")


def _fill_prod(prod: Catalog, uses: int, uri: str) -> None:
    """Plant what only a metastore can have, and create the tables in it as other writers do."""
    from reconciler.backends.hive.gen.ttypes import Database, FieldSchema

    def table_of(identifier: Identifier, *given: Any) -> Any:
        """Return an entry that shows the columns in ``shown``, or none."""
        table = plain_table(identifier, *given)
        table.sd.cols = [FieldSchema(*column, None) for column in shown.get(identifier, ())]
        return table

    shown: dict[Identifier, Iterable[tuple[str, str]]] = {}
    external = {"EXTERNAL": "TRUE"}
    others = []
    for _ in range(uses):
        managed, place = prod.new()
        prod.owned(managed, prod.dataset(place))
        prod.expect("wrong-table-type", managed)
        others.append(table_of(managed, str(place), _lance(prod.entries.pop(managed)[1]), "MANAGED_TABLE"))
        unmarked, place = prod.new()
        others.append(plain_table(unmarked, str(prod.dataset(place)), external))
        prod.expect("wrong-table-type", unmarked)
        text, place = prod.new()
        place.mkdir(parents=True)
        (place / "part-0.csv").write_text("id\n1\n")
        others.append(plain_table(text, str(place), external))
        for columns in (["id bigint"], ["score double", "id bigint"], ["id bigint", "score double", "old int"]):
            stale, place = prod.new()
            prod.owned(stale, prod.dataset(place))
            prod.expect("stale-columns", stale)
            shown[stale] = [(name, kind) for name, _, kind in (column.partition(" ") for column in columns)]
        same, place = prod.new()
        prod.owned(same, prod.dataset(place))
        shown[same] = [("ID", "bigint"), ("score", "double")]
        empty, place = prod.new()
        others.append(plain_table(empty, str(place), external))
    with raw(uri) as client:
        for namespace in prod.namespaces:
            home = f"{prod.root}/{namespace[-1]}.db"
            client.create_database(Database(name=namespace[-1], catalogName=namespace[0], locationUri=home))
        for table in others:
            client.create_table(table)
        for identifier, (location, properties) in prod.entries.items():
            client.create_table(table_of(identifier, location, {**_lance(properties), **external}))


def _lance(properties: Mapping[str, str]) -> dict[str, str]:
    return {**properties, "table_type": "lance"}


def _across(lake: Catalog, prod: Catalog) -> None:
    """Register one dataset in both catalogs, and one below the lake's root in the other catalog only."""
    (one, place), (other, _) = lake.new(), prod.new()
    lake.owned(one, lake.dataset(place))
    prod.owned(other, place)
    lake.expect("shared-location", one)
    prod.expect("shared-location", other)
    (_, place), (guest, _) = lake.new(), prod.new()
    prod.owned(guest, lake.dataset(place))
    (source, original), (clone, place) = lake.new(), prod.new()
    dataset = lance.dataset(str(lake.dataset(original, "plain")))
    lake.owned(source, original)
    cloned = dataset.version
    dataset.shallow_clone(str(place), cloned)
    dataset.tags.create("kept", cloned)
    dataset.tags.create("newest", lance.write_dataset(_rows(1), str(original), mode="append").version)
    prod.owned(clone, place, **{CLONE: f"{address(lake.name, source)}@{cloned}"})
    prod.blocks[clone]["clone"] = {"of": address(lake.name, source), "at": {"tag": "newest"}}
    prod.planted.datasets += 1
    prod._based(clone)
    for rule in ("moved-tag", "reads-elsewhere"):
        prod.expect(rule, clone)


def plant(folder: Path, uri: str, datasets: int) -> Planted:
    """Fill ``folder`` and the metastore at ``uri`` with about ``datasets`` datasets, and write the manifest."""
    (folder / "prototypes").mkdir()
    prototypes = Prototypes(folder / "prototypes")
    planted = Planted(folder / "lancens.yaml", prototypes.cut)
    lake = Catalog(LAKE, folder / "lake", LAKE_NAMESPACES, prototypes, planted)
    prod = Catalog(PROD, folder / "warehouse", DATABASES, prototypes, planted)
    uses = max(1, datasets // 200)
    for catalog in (lake, prod):
        for _ in range(uses):
            for put in (*ODD, *DEFECTS):
                put(catalog)
        _across(lake, prod)
    while planted.datasets < datasets - 6 * uses:
        lake.sound()
        prod.sound()
    _fill_lake(lake, uses, folder / "outside")
    _fill_prod(prod, uses, uri)
    suppress = [{"rule": "orphan", "match": "known/**", "until": "2020-01-01", "reason": "they move"}]
    lake.expect("expired-suppression", [])
    accepted = lake.dataset(lake.root / "accepted" / "lost.lance")
    suppress.append({"rule": "orphan", "match": f"accepted/{accepted.name}", "until": "2900-01-01", "reason": "mine"})
    document = {
        "version": 1,
        "name": NAME,
        "catalogs": {
            LAKE: {
                "impl": "dir",
                "config": {"root": str(lake.root)},
                "suppress": suppress,
                **tree_of(lake.blocks),
            },
            PROD: {"impl": "hive3", "config": {"uri": uri, "root": str(prod.root)}, **tree_of(prod.blocks)},
        },
    }
    planted.manifest.write_text(json.dumps(document, indent=1), encoding="utf-8")  # which is YAML too
    return planted


def tree_of(blocks: Mapping[Identifier, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the blocks as a manifest nests them, with a policy for tables without one."""
    tree: dict[str, Any] = {"policies": [{"match": "**/*_crowded", "expect": {"max_fragments": 3}}]}
    for identifier, block in blocks.items():
        below = tree
        for name in identifier[:-1]:
            below = below.setdefault("namespaces", {}).setdefault(name, {})
        below.setdefault("tables", {})[identifier[-1]] = block
    return tree
