"""Finding backends by name."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from reconciler.backends import registry
from reconciler.backends.dir import DirBackend
from reconciler.backends.memory import MemoryBackend
from reconciler.model.errors import ConfigError, InvalidInputError, MissingExtraError


def _install(monkeypatch: pytest.MonkeyPatch, *entries: tuple[str, str]) -> None:
    points = EntryPoints(EntryPoint(name, value, registry.GROUP) for name, value in entries)
    monkeypatch.setattr(registry, "registered_points", lambda _: points)


def test_what_ships_is_found() -> None:
    assert {"dir", "memory"} <= set(registry.names())
    assert registry.backend_class("dir") is DirBackend
    assert registry.backend_class("memory") is MemoryBackend


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"^unknown impl `memry`.*`memory`\? .*dir"):
        registry.backend_class("memry")


def test_a_missing_package_names_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, ("lake", "no_such_package.lake:Lake [glue]"), ("other", "no_such_package.lake:Lake"))
    with pytest.raises(MissingExtraError, match=r"impl `lake` .* pip .*\[glue\]"):
        registry.backend_class("lake")
    with pytest.raises(ConfigError, match=r"`other` \(no_such_package.lake:Lake\)"):
        registry.backend_class("other")


def test_a_package_missing_at_connect_names_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def needs_boto3(self: MemoryBackend, **properties: str) -> None:
        raise ModuleNotFoundError("No module named 'boto3'")

    monkeypatch.setattr(MemoryBackend, "__init__", needs_boto3)
    _install(monkeypatch, ("lake", "reconciler.backends.memory:MemoryBackend [glue]"))
    with pytest.raises(MissingExtraError, match=r"pip install '\S+\[glue\]'"):
        registry.connect("lake", {})


@pytest.mark.parametrize("value", ["reconciler.model.names:join", "reconciler.model.live:Storage"])
def test_what_is_no_backend_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    _install(monkeypatch, ("odd", value))
    with pytest.raises(ConfigError, match="is not a subclass of"):
        registry.backend_class("odd")


def test_connecting_with_faulty_properties_names_them() -> None:
    with pytest.raises(InvalidInputError, match="`rot`; did you mean `root`"):
        registry.connect("dir", {"rot": "/lake"})


def test_finding_a_class_loads_nothing_heavy() -> None:
    code = (
        "import sys; from reconciler.backends import registry; registry.backend_class('dir');"
        "registry.backend_class('memory');"
        "print([name for name in ('lance', 'pyarrow', 'boto3', 'thrift', 'pyspark') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
