"""Files that may be pipes: variables, and the tokens of a server."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.manifest.files import read_variables
from reconciler.model import pipes
from reconciler.model.errors import ConfigError, LancensError

TOKEN = "tok-3f9ab2c4d5e6f7a8"


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def token_file(path: str) -> object:
    from reconciler.server.guard import TokenFile

    return TokenFile(path)


@pytest.mark.parametrize(("read", "error"), [(read_variables, LancensError), (token_file, ConfigError)])
def test_a_pipe_that_nothing_writes_to_is_an_error(
    pipe: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[str], object], error: type[Exception]
) -> None:
    monkeypatch.setattr(pipes, "PATIENCE_SECONDS", 0)
    with pytest.raises(error, match="nothing writes to this pipe"):
        read(str(pipe))


def test_a_named_pipe_is_read_to_the_end_of_its_writer(pipe: Path) -> None:
    writer = threading.Thread(target=pipe.write_text, args=("region: eu\n" + "#" * 100_000,))
    writer.start()
    assert {name: str(value) for name, value in read_variables(str(pipe)).items()} == {"region": "eu"}
    writer.join()


def test_a_writer_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    read, waits = os.read, []

    def read_before_the_writer(descriptor: int, count: int) -> bytes:
        try:
            return read(descriptor, count)
        except BlockingIOError:
            waits.append(count)
            os.write(writing, b"abc")
            raise

    monkeypatch.setattr(pipes, "PATIENCE_SECONDS", 0)
    monkeypatch.setattr(os, "read", read_before_the_writer)
    assert pipes.read_file_or_pipe(f"/dev/fd/{reading}", 2) == b"ab"
    assert waits == [2]
    os.close(reading)
    os.close(writing)


def test_a_writer_that_ended_without_a_word_leaves_nothing() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    assert pipes.read_file_or_pipe(f"/dev/fd/{reading}", 2) == b""
    os.close(reading)


def test_a_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(TOKEN)
    assert pipes.read_file_or_pipe(tmp_path / "file", 3) == b"tok"
