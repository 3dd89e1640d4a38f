"""A disk that fails or is slow, to one process alone: strace ends some of its calls of files in an error, or late."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["DiskFault", "is_there"]

_WRITES = ("mkdir", "renameat", "linkat", "unlink", "fsync")
"""What Lance and the journal do to files. `write` is also how threads wake each other."""
_READS = "openat,getdents64,newfstatat,statx"
_READ = ("", "__manifest", "__manifest/_versions")
"""The directories of a catalog that fail to be read."""
_ERRORS = ("EIO", "EIO", "EIO", "ENOSPC", "EROFS")
_SLOW_MICROSECONDS = (2_000, 20_000)


@dataclass(frozen=True)
class DiskFault:
    """What strace does to which ``calls``, and in which directory of a catalog, if not everywhere."""

    calls: str
    does: str
    where: str | None = None

    def __str__(self) -> str:
        return f"{self.calls}:{self.does}" + (f" in {self.where or '.'}" if self.where is not None else "")

    @property
    def name(self) -> str:
        """What the tally counts it as."""
        return "disk slow" if self.only_delays else f"disk {self.does.split(':')[0].partition('=')[2]}"

    @property
    def only_delays(self) -> bool:
        """Whether every call is carried out."""
        return self.does.startswith("delay")

    @classmethod
    def drawn(cls, dice: random.Random) -> DiskFault:
        """Draw a fault: a directory cannot be read, one call fails once or from then on, or every call is late."""
        match dice.choice(("reads", "late", "writes", "writes", "writes")):
            case "reads":
                return cls(_READS, "error=EIO", dice.choice(_READ))
            case "late":
                return cls(",".join(_WRITES), f"delay_enter={dice.choice(_SLOW_MICROSECONDS)}")
        when = f"when={dice.randrange(1, 12)}{dice.choice(('', '+'))}"
        return cls(dice.choice((*_WRITES, ",".join(_WRITES))), f"error={dice.choice(_ERRORS)}:{when}")

    def before(self, root: Path) -> Sequence[str]:
        """Return what to put before a command, so that its disk has the fault; a catalog's is at ``root``."""
        at = () if self.where is None else ("-P", str(root / self.where))
        return (
            "strace",
            "-f",
            "--seccomp-bpf",
            "-qq",
            "-o",
            "/dev/null",
            *at,
            f"--trace={self.calls}",
            f"--inject={self.calls}:{self.does}",
        )


@cache
def is_there() -> bool:
    """Return whether strace is installed and may trace here; some containers forbid it."""
    if shutil.which("strace") is None:
        return False
    command = [*DiskFault("fsync", "error=EIO").before(Path("/")), "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
