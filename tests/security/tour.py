"""A catalog with secrets all around it: in what a manifest takes them from, and where lancens has no business."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.backends.memory import MemoryBackend
from reconciler.server.catalogs import OneCatalog
from tests.cli.running import Ran, lancens, shell
from tests.security.canary import Canaries
from tests.servers.fault_proxy import Speaks, fault_proxy
from tests.servers.lance_rest import served
from tests.servers.process import free_port
from tests.torture.manifests import write_manifest
from tests.torture.scenario import Table, Wanted
from tests.torture.targets.base import OWNER, Room, Target

__all__ = ["LAKE", "Tour", "touring"]

LAKE = OWNER.partition("/")[2]
_SPACE = ("a",)


@dataclass
class Wire:
    """Passes requests on to the server on a port, and keeps them."""

    port: int = 0
    data: bytearray = field(default_factory=bytearray)

    def note(self, request: bytes) -> bytes:
        self.data += request + b"\n"
        return request


@contextmanager
def _wire(port: int, speaks: Speaks = "http") -> Iterator[Wire]:
    wire = Wire()
    with fault_proxy(port, speaks, wire.note) as proxy:
        wire.port = proxy.port
        yield wire


@dataclass
class Tour:
    """One catalog, another one in the same manifest, and what is sent to both.

    ``config`` is the block of the first; ``environment`` is that of every command. With ``capsys``, commands run in
    this process, which is quicker; otherwise each has one of its own.
    """

    target: Target
    room: Room
    home: Path
    wire: Wire
    other: MemoryBackend
    other_wire: Wire
    capsys: pytest.CaptureFixture[str] | None
    canaries: Canaries = field(default_factory=Canaries)
    environment: dict[str, str] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.room.folder

    # ---- where the secrets are -----------------------------------------------------------------------------------

    def plant(self) -> None:
        """Put secrets into the environment and into files, with those beside them that nobody named."""
        new = self.canaries.new
        self.environment = {
            "HOME": str(self.home),
            "TMPDIR": str(self.home / "tmp"),
            "CANARY_LOGIN": new("login from env", "lo-{}=="),
            "CANARY_HEADER": new("header from env", "he{}&x"),
            "CANARY_STORAGE": new("storage option from env", "st/{}+=?"),
            "CANARY_OTHER": new("login of the other catalog", "ot{}"),
            "CANARY_NOTE": new("property from env", 'pr {}&é"\\'),
            "CANARY_UNUSED": new("variable that nobody named"),
            "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
            "AWS_SECRET_ACCESS_KEY": new("variable of AWS"),
            "AWS_EC2_METADATA_DISABLED": "true",
            "HTTPS_PROXY": new("user information of a proxy", "http://me:{}@127.0.0.1:9"),
        }
        (self.home / "tmp").mkdir(parents=True)
        (self.home / ".aws").mkdir()
        key = new("key in ~/.aws")
        profile = f"[default]\naws_access_key_id=AKIDX\naws_secret_access_key={key}\n"
        (self.home / ".aws/credentials").write_text(profile)
        (self.home / ".netrc").write_text(f"machine 127.0.0.1 login me password {new('password in .netrc')}\n")
        (self.home / ".netrc").chmod(0o600)
        files = {
            "storage": new("storage option from a file", "fi:{}%"),
            "remark": new("property from a file", "re{}/~"),
            "serve": new("token of serve", "serve-token-{}"),
            "bystander": new("file that nobody named"),
        }
        (self.folder / "secrets").mkdir()
        for name, value in files.items():
            (self.folder / "secrets" / name).write_text(f"{value}\n")
        self.config = self._configured()

    def _configured(self) -> dict[str, str]:
        """Return the catalog's configuration, with a secret wherever one can be."""
        new, known = self.canaries.new, self.canaries.known
        given = self.target.config(self.room).items()
        told = {
            key: str(value).replace("${var:port}", str(self.wire.port)).replace("${var:patience}", "30")
            for key, value in given
        }
        if self.target.impl == "glue":
            told |= {"secret_access_key": "${env:CANARY_LOGIN}", "session_token": new("session token in config")}
        elif "credential" in told:
            known("login of the server", told["credential"], told["credential"].partition(":")[2])
        elif "auth_token" in told:
            known("login of the server", told["auth_token"])
        elif self.target.impl in ("unity", "iceberg"):
            told["auth_token"] = "${env:CANARY_LOGIN}"
        if self.target.impl == "rest":
            told["headers.x-team"] = "${env:CANARY_HEADER}"
        if "storage.aws_secret_access_key" in told:
            known("storage key of the server", told["storage.aws_secret_access_key"])
        else:
            told["storage.aws_secret_access_key"] = "${env:CANARY_STORAGE}"
            told["storage.proxy_url"] = new("user information in config", "http://me:{}@127.0.0.1:9")
        told["storage.aws_session_token"] = "${file:secrets/storage}"
        told["storage.azure_storage_sas_key"] = new("storage option in config", "?sv=1&sig={}%3D")
        return told

    def fill(self) -> None:
        """Put into the catalog what somebody else has made, with secrets in it."""
        new = self.canaries.new
        mine = {"lancens.managed-by": OWNER, "lancens.keys": '["db_password"]'}
        theirs = {
            "db_password": new("live property of a table", "li{}$"),
            "source": new("live value that looks like one", "http://me:{}@db/x"),
        }
        self.target.prepare(self.room)
        self.target.add_namespace(self.room, _SPACE, {"db_password": new("live property of a namespace")})
        self.target.add_namespace(self.room, ("b",), {})
        place = self.target.write_dataset(self.room, "theirs", 2)
        self.target.add_lance(self.room, (*_SPACE, "theirs"), place, {**theirs, **mine})
        self.target.add_lance(self.room, ("b", "kept"), place, theirs)
        if self.target.impl == "glue":  # the others refuse them, or what is there as a file cannot have them
            signed = new("query of a live location", "s3://bucket/t?sig={}")
            self.target.add_lance(self.room, ("b", "signed"), signed, {})
            named = new("user information of a live location", "s3://me:{}@bucket/t")
            self.target.add_lance(self.room, ("b", "named"), named, {})

    def write(self, *tables: str, name: str = "lancens.yaml", **config: str) -> None:
        """Write a manifest that wants ``tables``; ``config`` stands in the place of what is configured."""
        if "property in the manifest" not in self.canaries.values:
            self.canaries.new("property in the manifest", "ap{}")
        properties = {
            "tier": "gold",
            "note": "${env:CANARY_NOTE}",
            "remark": "x ${file:secrets/remark}",
            "api_token": self.canaries.values["property in the manifest"],
        }
        wanted = Wanted({_SPACE: properties}, {(*_SPACE, table): Table("create", properties) for table in tables})
        document = json.loads(write_manifest(self.target, self.room, wanted).read_text())
        document["catalogs"][LAKE]["config"] = {**self.config, **config}
        document["safety"] = {"min_tables": 100}
        # Copies are opened where the originals are, with what opens those.
        in_store = any(key.startswith("storage.") for key in self.target.config(self.room))
        storage = {key: value for key, value in self.config.items() if in_store and key.startswith("storage.")}
        reach = {"uri": f"http://127.0.0.1:{self.other_wire.port}", "auth_token": "${env:CANARY_OTHER}"}
        document["catalogs"]["other"] = {
            "impl": "rest",
            "config": {**reach, **storage},
            "mirror": {"from": LAKE, "select": ["/".join((*self.target.identifier(self.room, _SPACE), "**"))]},
            "namespaces": {"copies": {"properties": {"tier": "gold"}}},
        }
        (self.folder / name).write_text(json.dumps(document, indent=1))

    def arguments(self) -> list[str]:
        """Return what reaches the catalog without a manifest, with the secrets on the command line."""
        given = {
            key: value.replace("${file:secrets/storage}", self.canaries.values["storage option from a file"])
            for key, value in self.config.items()
        }
        for name, value in self.environment.items():
            given = {key: old.replace(f"${{env:{name}}}", value) for key, old in given.items()}
        if self.target.impl == "iceberg":
            given["warehouses"] = self.target.above(self.room)[0]
        options = [part for key, value in given.items() for part in ("--config", f"{key}={value}")]
        return ["--impl", self.target.impl, *options]

    # ---- what lancens says ---------------------------------------------------------------------------------------

    def run(self, *arguments: str, codes: Collection[int] = (0,)) -> Ran:
        """Run a command; nothing that it prints holds a secret."""
        ran = self._ran(arguments)
        shown = f"lancens {' '.join(arguments)}: {ran.code}\n{ran.out}\n{ran.err}"
        self.check(shown.removeprefix(f"lancens {' '.join(arguments)}"), shown)
        assert "Traceback" not in ran.err or "--debug" in arguments, shown
        assert "fault of lancens" not in ran.err, shown
        assert ran.code in codes, shown
        return ran

    def _ran(self, arguments: Sequence[str]) -> Ran:
        if self.capsys is None:
            return shell(*arguments, folder=self.folder, **self.environment)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            patch.chdir(self.folder)
            patch.setattr(tempfile, "tempdir", None)
            return lancens(self.capsys, *arguments)

    def check(self, text: str, shown: str = "") -> None:
        """Fail where a text holds a secret."""
        assert self.canaries.in_text(text) == set(), shown or text

    def check_files(self) -> None:
        """Fail where a file holds a secret that nobody but lancens can have put there."""
        given = [self.folder / "secrets", *self.folder.glob("lancens*.yaml"), self.home / ".aws", self.home / ".netrc"]
        kept_by_catalog = [self.room.lake / "__manifest", self.folder / "lake/__manifest"]
        for place in {self.folder, self.home, self.room.lake}:
            found = self.canaries.in_files(place, [*given, *kept_by_catalog])
            assert found == {}, found

    def check_sent(self, allowed: Mapping[str, bool]) -> None:
        """Fail where a service was sent a secret that is not its own.

        ``allowed`` are what the names of secrets begin with that go to the catalog, and whether they have to.
        """
        sent = self.canaries.in_bytes(bytes(self.wire.data))
        strange = {name for name in sent if not name.startswith(tuple(allowed))}
        assert strange == set(), strange
        for start, must in allowed.items():
            assert not must or any(name.startswith(start) for name in sent), (start, sent)
        strange = self.canaries.in_bytes(bytes(self.other_wire.data)) - {"login of the other catalog"}
        assert strange == set(), strange


@contextmanager
def touring(target: Target, home: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Tour]:
    """Give a tour of a server, planted and filled."""
    room = target.room()
    other = MemoryBackend()
    with (
        _wire(target.port or free_port(), target.speaks) as wire,
        served(OneCatalog(other, extra_locations=[str(room.lake), str(target.folder), "s3://lake"])) as url,
        _wire(int(url.rpartition(":")[2])) as other_wire,
    ):
        tour = Tour(target, room, home, wire, other, other_wire, capsys)
        tour.plant()
        tour.fill()
        yield tour
