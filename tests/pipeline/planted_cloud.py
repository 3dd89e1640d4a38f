"""The same defects in a bucket: a directory catalog in S3, and a Glue whose tables are there; and a writer at work.

Everything is planted on this machine first, and then put into the bucket of a moto, file by file.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.backends.dir import DirBackend
from reconciler.model.concurrency import in_parallel
from reconciler.model.names import Identifier
from reconciler.model.ownership import MANAGED_BY
from tests.pipeline.planted import DEFECTS, NAME, ODD, Catalog, Planted, Prototypes, tree_of
from tests.servers.glue import GlueServer
from tests.soak import count

__all__ = ["Cloud", "plant_in_cloud", "writing"]

BUCKET = "planted"
BUSY, TABLES = "busy", 3
_AT_ONCE = 32
_ON_DISKS = (Catalog.linked, Catalog.linked_twice, Catalog.without_latest_version_and_hint)
"""What a bucket cannot have: links, and version hints."""
_WRITER = """
import sys, lance, pyarrow as pa
from datetime import timedelta
from pathlib import Path
rows = pa.table({"id": pa.array(range(50), pa.int64())})
stop, *places = sys.argv[1:]
turn = 0
while not Path(stop).exists():
    turn += 1
    for place in places:
        lance.write_dataset(rows, place, mode="append")
        lance.dataset(place).delete(f"id = {turn % 50}")
        if turn % 2:
            lance.dataset(place).tags.create("odd", lance.dataset(place).version)
        else:
            lance.dataset(place).optimize.compact_files()
            lance.dataset(place).tags.delete("odd")
            lance.dataset(place).cleanup_old_versions(timedelta(0), delete_unverified=True)
    print(turn, flush=True)
"""


@dataclass(frozen=True)
class Cloud:
    """A moto with S3 and Glue, and a plain client of its S3."""

    glue: GlueServer
    s3: Any

    @property
    def storage(self) -> dict[str, str]:
        """The options by which pylance reaches the bucket."""
        config = self.glue.config()
        return {
            "endpoint": config["endpoint"],
            "region": config["region"],
            "aws_access_key_id": config["access_key_id"],
            "aws_secret_access_key": config["secret_access_key"],
            "allow_http": "true",
        }

    def upload(self, folder: Path, below: Path | None = None) -> None:
        """Put the files of ``folder``, or those ``below`` a place in it, into the bucket, under its name."""
        for path in sorted((below or folder).rglob("*")):
            if path.is_file():
                self.s3.put_object(Bucket=BUCKET, Key=str(path.relative_to(folder.parent)), Body=path.read_bytes())


def plant_in_cloud(folder: Path, cloud: Cloud, datasets: int) -> Planted:
    """Plant about ``datasets`` datasets, or one of each kind, in S3 and Glue, and write the manifest.

    Beside them is a catalog of tables to write to.
    """
    (folder / "prototypes").mkdir()
    prototypes = Prototypes(folder / "prototypes")
    planted = Planted(folder / "lancens.yaml", prototypes.cut)
    lake = Catalog("lake", folder / "lake", (("sales",), ("ml",)), prototypes, planted)
    prod = Catalog("prod", folder / "warehouse", (("crm",), ("web",)), prototypes, planted)
    uses = max(1, datasets // 200)
    kinds = [*ODD, *(defect for defect in DEFECTS if defect not in _ON_DISKS)]
    step = count(2, 1)  # a sample has each kind in one of the catalogs; on a disk it is in both
    for number, catalog in enumerate((lake, prod)):
        for _ in range(uses):
            for put in kinds[number % step :: step]:
                put(catalog)
    while planted.datasets < datasets - uses:
        lake.sound()
        prod.sound()
    prototypes.copy("plain", folder / "databases/crm.db/lost.lance")
    planted.expected["orphan", "prod/crm/lost.lance"] += 1
    planted.datasets += 1
    cloud.s3.create_bucket(Bucket=BUCKET)
    for root in (lake.root, prod.root, folder / "databases"):
        cloud.upload(root)
    _fill_lake(lake, folder, cloud)
    _fill_prod(prod, uses, folder, cloud)
    # A dataset in an object store may not refer to this machine's disk, so none of these is looked into.
    for rule, address in [*planted.expected]:
        if address in planted.based and rule != "reads-elsewhere":
            del planted.expected[rule, address]
    planted.expected.update(("unreadable", address) for address in planted.based)
    storage = {f"storage.{key}": value for key, value in cloud.storage.items()}
    catalogs = {
        "lake": {"impl": "dir", "config": {"root": f"s3://{BUCKET}/lake", **storage}, **tree_of(lake.blocks)},
        "prod": {
            "impl": "glue",
            "config": cloud.glue.config(root=f"s3://{BUCKET}/warehouse", **storage),
            **tree_of(prod.blocks),
        },
        BUSY: {"impl": "dir", "config": {"root": str(folder / BUSY)}},
    }
    for block in catalogs.values():
        _in_bucket(block, folder)
    document = {"version": 1, "name": NAME, "catalogs": catalogs}
    planted.manifest.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return planted


def _moved(location: str, folder: Path) -> str:
    """Return where in the bucket is what was planted at a place of this machine."""
    return location.replace(f"{folder}/", f"s3://{BUCKET}/")


def _in_bucket(block: dict[str, Any], folder: Path) -> None:
    """Have the blocks of a catalog name places in the bucket."""
    for table in block.get("tables", {}).values():
        if "location" in table:
            table["location"] = _moved(table["location"], folder)
    for namespace in block.get("namespaces", {}).values():
        _in_bucket(namespace, folder)


def _fill_lake(lake: Catalog, folder: Path, cloud: Cloud) -> None:
    backend = DirBackend(root=f"s3://{BUCKET}/lake", **{f"storage.{key}": text for key, text in cloud.storage.items()})
    for namespace in lake.namespaces:
        backend.insert_namespace(namespace, {})
    in_parallel(
        lambda entry: backend.insert_table(entry[0], _moved(entry[1][0], folder), entry[1][1]),
        lake.entries.items(),
        _AT_ONCE,
    )


def _fill_prod(prod: Catalog, uses: int, folder: Path, cloud: Cloud) -> None:
    entries: dict[Identifier, list[Mapping[str, Any]]] = {namespace: [] for namespace in prod.namespaces}
    for identifier, (location, properties) in prod.entries.items():
        entries[identifier[:-1]].append(_entry(identifier, _moved(location, folder), "EXTERNAL_TABLE", properties))
    for _ in range(uses):
        managed, place = prod.new()
        prod.dataset(place)
        cloud.upload(prod.root, below=place)
        entries[managed[:-1]].append(_entry(managed, _moved(str(place), folder), "MANAGED_TABLE", {}))
        prod.expect("wrong-table-type", managed)
    of_others = {MANAGED_BY: f"other/{prod.name}"}
    identifier, _ = prod.new()
    cloud.s3.put_object(Bucket=BUCKET, Key="warehouse/data/rows.csv", Body=b"id")
    entries[identifier[:-1]].append(
        _entry(identifier, f"s3://{BUCKET}/warehouse/data/rows.csv", "EXTERNAL_TABLE", of_others)
    )
    prod.expect("not-lance", identifier)
    nowhere, _ = prod.new()
    entries[nowhere[:-1]].append({**_entry(nowhere, "", "EXTERNAL_TABLE", of_others), "StorageDescriptor": {}})
    prod.expect("wrong-table-type", nowhere)
    prod.planted.tables[prod.name] += 1
    for (database,), tables in entries.items():
        cloud.glue.client.create_database(
            DatabaseInput={"Name": database, "LocationUri": f"s3://{BUCKET}/databases/{database}.db"}
        )
        cloud.glue.add_tables(database, tables)


def _entry(identifier: Identifier, location: str, kind: str, properties: Mapping[str, str]) -> Mapping[str, Any]:
    return {
        "Name": identifier[-1],
        "TableType": kind,
        "Parameters": {**properties, "table_type": "lance"},
        "StorageDescriptor": {"Location": location},
    }


@contextmanager
def writing(folder: Path) -> Iterator[Iterator[str]]:
    """Have a process write, delete, tag, compact and clean up in tables of the busy catalog for the block.

    Gives a line for each time that it has done so, and waits for the next.
    """
    backend = DirBackend(root=str(folder / BUSY))
    backend.insert_namespace(("hot",), {})
    places = [str(folder / BUSY / f"data/{number}.lance") for number in range(TABLES)]
    stop = folder / "stop"
    process = subprocess.Popen([sys.executable, "-c", _WRITER, str(stop), *places], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert next(process.stdout, None), "the writer has ended"
        for number, place in enumerate(places):
            backend.insert_table(("hot", f"t{number}"), place, {"lancens.managed-by": f"other/{BUSY}"})
        yield process.stdout
    finally:
        stop.touch()
        process.communicate(timeout=60)
        assert process.returncode == 0, "the writer has failed"
