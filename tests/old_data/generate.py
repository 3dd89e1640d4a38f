"""Write the datasets of this folder, each with the pylance release that left it so.

Each release needs an environment of its own, and Python 3.11 or older::

    for version in 0.7.5 0.8.0 0.10.5 0.16.0 0.20.0 0.30.0 1.0.0 4.0.0 7.0.0 10.0.0; do
        python -m venv old-$version && old-$version/bin/pip install pylance==$version 'pyarrow<16' 'numpy<2'
        old-$version/bin/python tests/old_data/generate.py
    done

The order matters: 0.8.0 appends to a copy of what 0.7.5 wrote. Each writes a dataset of all that it can; 1.0.0 and
4.0.0 write directory catalogs. These are packed.
"""

import importlib
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

HERE = Path(__file__).parent


def _fragments(place: Path) -> None:
    for first in (0, 100, 200):
        numbers = pa.table({"id": range(first, first + 100)})
        lance.write_dataset(numbers, str(place), mode="append" if first else "create")


def write_0_7_5() -> None:
    """Write fragments without numbers of rows, some of which are deleted."""
    _fragments(HERE / "uncounted.lance")
    place = str(HERE / "deletions.lance")
    lance.write_dataset(pa.table({"id": range(50), "text": [f"row {one}" for one in range(50)]}), place)
    lance.dataset(place).delete("id >= 5 and id < 12")


def write_0_8_0() -> None:
    """Append to a dataset of 0.7.5, which counts the deleted rows of the old fragment twice."""
    place = HERE / "miscounted.lance"
    shutil.copytree(HERE / "deletions.lance", place)
    lance.write_dataset(pa.table({"id": [50], "text": ["row 50"]}), str(place), mode="append")


def write_0_10_5() -> None:
    """Write files of format 0.1 without sizes, and fields that share an id."""
    _fragments(HERE / "unsized.lance")
    place = str(HERE / "duplicate_fields.lance")
    lance.write_dataset(pa.table({"id": [1, 2, 3]}), place)
    lance.dataset(place).add_columns({"tens": "id * 10", "hundreds": "id * 100"})
    lance.dataset(place).add_columns({"more": "id + 7"})
    lance.write_dataset(
        pa.table({"id": [4, 5], "tens": [40, 50], "hundreds": [400, 500], "more": [11, 12]}), place, mode="append"
    )
    lance.dataset(place).drop_columns(["hundreds", "more"])
    lance.dataset(place).add_columns({"price": "id * 2", "quantity": "id * 3"})


def write_directory() -> None:
    """Write a directory catalog with a namespace, a table, and one that is only declared, and pack it."""
    spec: Any = importlib.import_module("lance.namespace")  # 0.7 has none
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, pa.schema({"id": pa.int64()})) as writer:
        writer.write_table(pa.table({"id": [0, 1, 2]}))
    with tempfile.TemporaryDirectory() as root:
        catalog = spec.DirectoryNamespace(root=root)
        catalog.create_namespace(spec.CreateNamespaceRequest(id=["theirs"], properties={"owner": "somebody"}))
        catalog.create_table(spec.CreateTableRequest(id=["theirs", "old"]), stream.getvalue().to_pybytes())
        if lance.__version__ == "1.0.0":
            catalog.create_empty_table(spec.CreateEmptyTableRequest(id=["theirs", "later"]))
        else:
            catalog.declare_table(spec.DeclareTableRequest(id=["theirs", "later"]))
        _pack(root, "directory")


def _pack(folder: str, name: str) -> None:
    with tarfile.open(HERE / f"{name}-{lance.__version__}.tar.xz", "w:xz") as packed:
        packed.add(folder, ".")


def _release_rows(first: int, last: int) -> pa.Table:
    numbers = range(first, last)  # of a slice of a table, pylance 0.20 wrote all of a struct
    columns = {
        "id": pa.array(numbers, pa.int64()),
        "text": pa.array([None if number % 7 == 0 else f"row {number}" for number in numbers]),
        "words": pa.array([[f"w{number % 3}", "x"] for number in numbers]),
        "place": pa.array([{"x": float(number), "y": None if number % 5 == 0 else number} for number in numbers]),
        "v": pa.array([[float(n % 9) for n in range(4 * number, 4 * number + 4)] for number in numbers]),
    }
    return pa.table({**columns, "v": columns["v"].cast(pa.list_(pa.float32(), 4))})


def write_release() -> None:
    """Write columns of several kinds, deletions, indices of numbers and vectors, and a tag where there are tags."""
    with tempfile.TemporaryDirectory() as root:
        place = f"{root}/release.lance"
        for first, last in ((0, 270), (270, 280), (280, 290)):
            lance.write_dataset(_release_rows(first, last), place, mode="append" if first else "create")
        if hasattr(lance.LanceDataset, "create_scalar_index"):
            lance.dataset(place).create_scalar_index("id", "BTREE")
        lance.dataset(place).create_index("v", "IVF_PQ", num_partitions=1, num_sub_vectors=2)
        lance.dataset(place).delete("id in (3, 25, 275)")
        lance.write_dataset(_release_rows(290, 300), place, mode="append")
        if hasattr(lance.LanceDataset, "tags"):
            lance.dataset(place).tags.create("first", 1)
        _pack(root, "release")


_WRITE = {
    "0.7.5": write_0_7_5,
    "0.8.0": write_0_8_0,
    "0.10.5": write_0_10_5,
    "1.0.0": write_directory,
    "4.0.0": write_directory,
}
_WRITE.get(lance.__version__, lambda: None)()
write_release()
