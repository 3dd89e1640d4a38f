"""Processes that write one directory at once, fresh ones too, beside pylance's and clean-ups: no entry is lost."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path

import lance
import lance_namespace
import pytest

from reconciler.backends.dir import DirBackend
from reconciler.model.errors import BackendError, NamespaceAlreadyExistsError
from tests.processes import writers
from tests.servers.process import HUNG_SECONDS
from tests.soak import count, seeded

MOST, CHANGES = 6, count(3, 6)


def _ours(root: str, name: str, there: set[str]) -> None:
    """Insert tables, and take every third out again."""
    backend = DirBackend(root=root)
    with contextlib.suppress(NamespaceAlreadyExistsError):
        backend.insert_namespace(("a",), {})
    for number in range(CHANGES):
        backend.insert_table(("a", f"{name}{number}"), f"{name}{number}", {"tier": name})
        there.add(f"{name}{number}")
        if number % 3 == 2:
            backend.remove_table(("a", f"{name}{number}"))
            there.remove(f"{name}{number}")


def _pylances(root: str, name: str, there: set[str]) -> None:
    """Declare tables; what pylance cannot do for others being faster is not done."""
    lake = lance_namespace.connect("dir", {"root": root})
    for number in range(CHANGES):
        with contextlib.suppress(Exception):
            lake.declare_table(lance_namespace.DeclareTableRequest(id=["a", f"{name}{number}"]))
            there.add(f"{name}{number}")


def _cleans(root: str, name: str, there: set[str]) -> None:
    """Remove all versions but the latest, again and again, and read what is left."""
    backend = DirBackend(root=root)
    for _ in range(10 * CHANGES):
        with contextlib.suppress(OSError, ValueError):
            lance.dataset(f"{root}/__manifest").cleanup_old_versions(timedelta(0))
        backend.scan()


ROLES: dict[str, Callable[[str, str, set[str]], None]] = {"ours": _ours, "pylance": _pylances, "cleans": _cleans}


def _roles(seed: int, race: int) -> list[str]:
    source = random.Random(f"{seed}-{race}")
    return ["ours", *source.choices([*ROLES], weights=(3, 1, 1), k=source.randint(1, MOST - 1))]


def _worker(folder: str, seed: int, races: int, number: int, together: Barrier) -> None:
    """Take part in each race that has as many; write what was told to be done, and what went wrong."""
    for race in range(races):
        there: set[str] = set()
        failed = ""
        roles = _roles(seed, race)
        together.wait()
        if number < len(roles):
            try:
                ROLES[roles[number]](f"{folder}/{race}", f"{roles[number]}{number}x", there)
            except BackendError as error:
                failed = f"{type(error).__name__}: {error}"
            Path(folder, f"{race}-{number}.json").write_text(json.dumps({"there": sorted(there), "failed": failed}))
        together.wait()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_entry_that_was_acknowledged_is_missing(tmp_path: Path) -> None:
    seed, races = seeded("races").randrange(2**32), count(3, 200)
    context = writers()
    together = context.Barrier(MOST + 1, timeout=HUNG_SECONDS)
    for race in range(races):
        (tmp_path / str(race)).mkdir()
        if "pylance" in _roles(seed, race):
            # pylance 14 makes a `__manifest` over what others have written since it looked (docs/catalogs/dir.md).
            DirBackend(root=str(tmp_path / str(race))).insert_namespace(("first",), {})
    workers = [
        context.Process(target=_worker, args=(str(tmp_path), seed, races, number, together)) for number in range(MOST)
    ]
    for worker in workers:
        worker.start()
    missing: dict[int, object] = {}
    for race in range(races):
        together.wait()
        together.wait()
        told = [json.loads(found.read_text()) for found in sorted(tmp_path.glob(f"{race}-*.json"))]
        # pylance 14 loses some of its own where others clean up, without lancens too.
        wanted = {name for one in told for name in one["there"] if name.startswith("ours")}
        live = {name for _, name in DirBackend(root=str(tmp_path / str(race))).scan().tables}
        failed = [one["failed"] for one in told if one["failed"]]
        if failed or wanted - live:
            missing[race] = (_roles(seed, race), sorted(wanted - live), failed)
    for worker in workers:
        worker.join()
    print(f"{races} races, {len(missing)} with entries that are missing, or with errors")
    assert missing == {}
