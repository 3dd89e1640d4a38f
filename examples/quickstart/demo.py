"""Plan, apply and plan again, on a copy of this folder with real Lance datasets in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import lance
import pyarrow as pa

HERE = Path(__file__).parent


def lancens(*arguments: str, folder: Path) -> None:
    print(f"\n$ lancens {' '.join(arguments)}", flush=True)
    subprocess.run([Path(sys.executable).with_name("lancens"), *arguments], cwd=folder, check=True)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="lancens-demo-") as name:
        folder = Path(name)
        shutil.copy(HERE / "lancens.yaml", folder)
        clicks = pa.table({"user_id": [1, 2, 2], "page": ["home", "home", "cart"]})
        lance.write_dataset(clicks, folder / "lake/raw/clicks.lance")

        lancens("plan", folder=folder)
        lancens("apply", "--auto-approve", folder=folder)
        lancens("plan", folder=folder)


if __name__ == "__main__":
    main()
