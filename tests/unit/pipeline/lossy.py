"""Real datasets of every shape that Lance has, what an audit finds in one, and damage to it."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from reconciler.auditor.document import Finding
from reconciler.auditor.records import LocationContent, TableRecord
from reconciler.auditor.rules import RuleLimits, check
from reconciler.auditor.storage_probe import probe
from reconciler.model.admission import Admission, StorageOptions
from reconciler.model.live import LiveTable
from reconciler.storage import Depth

ANYWHERE = StorageOptions({}, Admission(outside=True))
LIMITS = RuleLimits(datetime.now(UTC))
OF_DATA = (
    *("dangling", "not-lance", "unreadable", "unversioned-data", "lost-version", "future-commit"),
    *("missing-files", "short-files", "damaged-files", "broken-tag", "broken-branch"),
    *("shared-field-ids", "fragment-ids", "mixed-formats", "wrong-row-counts", "overlapping-index"),
)
"""The rules about losses of data."""
_CODE = re.compile(r"`((?:lance|pathlib)\.[^`]+)`")


def rows(number: int, first: int = 0) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + number), pa.int64())})


def write(place: Path, *commits: int) -> Any:
    """Write a dataset with a commit of so many rows each, and return it."""
    for at, number in enumerate(commits):
        lance.write_dataset(rows(number, at * 100), str(place), mode="append" if place.exists() else "create")
    return lance.dataset(str(place))


def record(place: Path | str, stored: LocationContent | None = None, depth: Depth = Depth.FILES) -> TableRecord:
    table = LiveTable(("a", "t"), str(place))
    return TableRecord(
        "lake", table.id, "o/lake", table.location, live=table, stored=stored or probe(str(place), ANYWHERE, depth)
    )


def findings(place: Path | str, depth: Depth = Depth.FILES) -> list[Finding]:
    """Return what an audit finds wrong with the data at ``place``."""
    return list(check(record(place, depth=depth), LIMITS, OF_DATA))


def found(place: Path | str, depth: Depth = Depth.FILES) -> list[str]:
    return [finding.rule for finding in findings(place, depth)]


def remedies(finding: Finding) -> list[str]:
    """Return the Python in a remedy, one command after the other."""
    return _CODE.findall(finding.remedy)


def follow(command: str) -> Any:
    """Run a command of a remedy as it stands there."""
    return eval(command, {"lance": lance, "pathlib": pathlib})  # noqa: S307 - a user types it


def follow_all(place: Path | str) -> list[str]:
    """Run all commands of the remedies of what an audit finds, and return the rules."""
    wrong = findings(place)
    for finding in wrong:
        for command in remedies(finding):
            follow(command)
    return [finding.rule for finding in wrong]


def branch(place: Path | str, name: str) -> Any:
    """Open the latest version of a branch."""
    return lance.dataset(str(place)).checkout_version((name, None))


def manifest(place: Path, version: int) -> Path:
    return place / "_versions" / f"{2**64 - 1 - version}.manifest"


def one(place: Path, pattern: str) -> Path:
    (path,) = place.glob(pattern)
    return path


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def patch(place: Path, old: bytes, new: bytes, *, in_indices: bool = False) -> None:
    """Replace bytes in the latest manifest: those of its indices come first, then a transaction, then the rest.

    Other datasets may share the file.
    """
    latest = min((place / "_versions").glob("*.manifest"))
    content = latest.read_bytes()
    before, separator, after = content.partition(old) if in_indices else content.rpartition(old)
    assert separator
    assert len(old) == len(new)
    latest.unlink()
    latest.write_bytes(before + new + after)


def commit_in_future(place: Path) -> None:
    """Have the latest version be committed nine years from now."""
    dataset: Any = lance.dataset(str(place))
    committed = dataset.get_version()["timestamp"].astimezone(UTC)
    old, new = (b"\x08" + varint(int(time.timestamp())) for time in (committed, committed + timedelta(days=9 * 365)))
    patch(place, old, new)


def varint(number: int) -> bytes:
    return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])


def lose_latest_and_hint(place: Path) -> None:
    min((place / "_versions").glob("*.manifest")).unlink()
    (place / "_versions/latest_version_hint.json").unlink()


def share_fragment_id(place: Path) -> None:
    patch(place, b"\x08\x02\x12", b"\x08\x01\x12")


def swap_fragment_ids(place: Path) -> None:
    for old, new in ((1, 3), (2, 1), (3, 2)):
        patch(place, bytes((8, old, 0x12)), bytes((8, new, 0x12)))


def mix_formats(place: Path) -> None:
    """Have the second fragment name a file of format 0.1, in a dataset that claims this format."""
    path = lance.dataset(str(place)).get_fragments()[1].data_files()[0].path.encode()
    patch(place, b"\x12\x032.2", b"\x12\x030.1")
    patch(place, path + b"\x12\x01\x00\x1a\x01\x00\x20\x02\x28\x02", path + b"\x12\x01\x00\x1a\x01\x00\x20\x00\x28\x00")


def overlap_segments(place: Path) -> None:
    """Have the second of two segments of an index, of a fragment each, cover the fragment of the first."""
    bitmap = b"\x3a\x30\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00"
    patch(place, bitmap + b"\x01\x00", bitmap + b"\x00\x00", in_indices=True)


def overwrite(path: Path, first: int, new: bytes) -> None:
    """Replace the bytes from ``first`` on, which counts from the end; other datasets may share the file."""
    content = bytearray(path.read_bytes())
    content[first : first + len(new) or None] = new
    path.unlink()
    path.write_bytes(content)


def end_process(*_: object) -> None:
    os.abort()


# ---- shapes ----------------------------------------------------------------------------------------------------------


def multi_base(folder: Path) -> Path:
    """A dataset whose first file is in a base, beside the dataset."""
    (folder / "base").mkdir()
    base = lance.DatasetBasePath(str(folder / "base"), name="cold")
    place = folder / "a.lance"
    lance.write_dataset(rows(20), str(place), initial_bases=[base], target_bases=["cold"])
    return Path(write(place, 20).uri)


def branched(folder: Path) -> Path:
    """A dataset with the branches `trial`, with rows and deletions of its own, and `trial/next`."""
    place = folder / "a.lance"
    trial = write(place, 20, 20).create_branch("trial")
    lance.write_dataset(rows(5, 500), trial, mode="append")
    trial = lance.dataset(str(place)).checkout_version(("trial", None))
    trial.delete("id = 501")
    lance.dataset(str(place)).checkout_version(("trial", None)).create_branch("trial/next")
    return place


def branched_from_main(folder: Path) -> Path:
    """A dataset whose first version, which was replaced, a branch with rows of its own needs."""
    place = folder / "a.lance"
    write(place, 20, 20)
    lance.write_dataset(rows(5, 500), lance.dataset(str(place)).create_branch("trial"), mode="append")
    lance.write_dataset(rows(7), str(place), mode="overwrite")
    return place


def branched_by_team(folder: Path) -> Path:
    """A dataset with a branch whose name pylance encodes in a file name, and one of that branch."""
    place = folder / "a.lance"
    lance.write_dataset(rows(5, 500), write(place, 20).create_branch("team/jürgen"), mode="append")
    lance.write_dataset(rows(5, 600), branch(place, "team/jürgen").create_branch("next"), mode="append")
    return place


def cloned(folder: Path) -> Path:
    """A clone with rows of its own, of a dataset with an index and deletions."""
    source = write(folder / "source.lance", 20, 20)
    source.create_scalar_index("id", "BTREE")
    source.delete("id = 3")
    source.shallow_clone(str(folder / "a.lance"), source.version)
    write(folder / "a.lance", 5)
    return folder / "a.lance"


def with_blobs(folder: Path) -> Path:
    """A dataset whose blobs are packed in one file, or have one each, of which some are in a struct."""
    blob = lance.blob_field("blob")
    schema = pa.schema([pa.field("id", pa.int64()), blob, pa.field("in", pa.struct([lance.blob_field("blob")]))])
    blobs = lance.blob_array([b"x" * 200_000, b"y" * 5_000_000, b"small", None])
    inner = lance.blob_array([b"z" * 200_000, None, b"w" * 300_000, None])
    nested = pa.StructArray.from_arrays([inner], fields=list(schema.field("in").type))
    table = pa.table([pa.array(range(4), pa.int64()), blobs, nested], schema=schema)
    lance.write_dataset(table, str(folder / "a.lance"), data_storage_version="2.2")
    return folder / "a.lance"


def with_external_blobs(folder: Path) -> Path:
    """A dataset with external blobs: in a base, and anywhere."""
    base, files = folder / "base", [folder / "base/1.bin", folder / "2 ö%.bin"]
    base.mkdir()
    for path in files:
        path.write_bytes(b"x" * 100)
    (base / "empty.bin").touch()
    uris = [path.as_uri() for path in (*files, base / "empty.bin")]
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("blob")])
    blobs = pa.table([pa.array(range(4), pa.int64()), lance.blob_array([*uris, b"inside"])], schema=schema)
    lance.write_dataset(
        blobs,
        str(folder / "a.lance"),
        data_storage_version="2.2",
        initial_bases=[lance.DatasetBasePath(str(base), name="cold")],
        allow_external_blob_outside_bases=True,
    )
    return folder / "a.lance"


def tagged(folder: Path) -> Path:
    """A dataset whose first version only a tag keeps, and a tag of a branch."""
    place = folder / "a.lance"
    write(place, 20).tags.create("keep", 1)
    lance.write_dataset(rows(30), str(place), mode="overwrite")
    dataset = lance.dataset(str(place))
    lance.write_dataset(rows(5), dataset.create_branch("trial"), mode="append")
    dataset.tags.create("tried", ("trial", lance.dataset(str(place)).checkout_version(("trial", None)).version))
    return place


def deleted(folder: Path) -> Path:
    """A dataset with a deletion file of each kind."""
    place = folder / "a.lance"
    write(place, 20, 100_000).delete("id = 3 OR (id >= 100 AND id % 3 = 1)")
    return place


def committed(folder: Path) -> Path:
    return Path(write(folder / "a.lance", 20, 20, 20).uri)


def segmented(folder: Path) -> Path:
    """A dataset with an index of two segments, of a fragment each."""
    place = folder / "a.lance"
    write(place, 20).create_scalar_index("id", "BTREE")
    write(place, 20).optimize.optimize_indices(num_indices_to_merge=0)
    return place


_SHAPES = (
    *(multi_base, branched, branched_from_main, branched_by_team, cloned, with_blobs, with_external_blobs, tagged),
    *(deleted, committed, segmented),
)
SHAPES: Mapping[str, Callable[[Path], Path]] = {shape.__name__: shape for shape in _SHAPES}
