"""Write the datasets of this folder, each with the pylance release that left it so.

Each release needs an environment of its own, and Python 3.11 or older::

    for version in 0.7.5 0.8.0 0.10.5; do
        python -m venv old-$version && old-$version/bin/pip install pylance==$version 'pyarrow<16' 'numpy<2'
        old-$version/bin/python tests/old_data/generate.py
    done

The order matters: 0.8.0 appends to a copy of what 0.7.5 wrote.
"""

import shutil
from pathlib import Path

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


{"0.7.5": write_0_7_5, "0.8.0": write_0_8_0, "0.10.5": write_0_10_5}[lance.__version__]()
