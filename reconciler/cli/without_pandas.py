"""Keeping pyarrow from importing pandas in the process of a command.

Where pandas is installed, pyarrow's first conversion imports it, which takes longer than `import lance` without it.
pyarrow looks for pandas once and then knows none: not even NaT and NA are null to it. So this is neither for processes
of others, which call ``main`` with arguments, nor for Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType


class _PandasHider:
    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pyarrow does without pandas in lancens", name=name)


class _PyarrowLoader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        hider = _PandasHider()
        sys.meta_path.insert(0, hider)
        try:
            module.array([None])
        finally:
            sys.meta_path.remove(hider)


class _PyarrowFinder:
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == "pyarrow" and "pandas" not in sys.modules else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _PyarrowLoader(spec.loader.name, spec.loader.path)
        return spec


_FINDER = _PyarrowFinder()


def hide_pandas() -> None:
    """Let pyarrow, once it is imported, find no pandas."""
    sys.meta_path.insert(0, _FINDER)


def show_pandas() -> None:
    """Let pyarrow find pandas, if it has not been imported."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
