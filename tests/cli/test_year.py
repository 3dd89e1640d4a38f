"""A year of two teams: a manifest each, on one catalog with three environments and a mirror.

Each month somebody edits a manifest. What the plans advise is done as they say, in every environment; then nothing is
left to do or to advise, and each table has its first data. After that, what is still advised is done in a copy.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.backends import memory, registry
from tests.cli.running import Ran, lancens

pytestmark = pytest.mark.end_to_end

ENVIRONMENTS = ("dev", "test", "prod")
SPACE = "${var:env}_"
_ADVISED = 3
"""How often advice may lead to other advice."""


@dataclass
class Team:
    """A team with a manifest whose blocks are in an included file."""

    name: str
    folder: Path
    capsys: pytest.CaptureFixture[str]
    followed: set[str] = field(default_factory=set)

    def start(self, *tables: str) -> None:
        (self.folder / "tables").mkdir(parents=True)
        space = f"{SPACE}{self.name}"
        scope = [f"{SPACE}{self.name}*", f"{SPACE}{self.name}*/**"]
        lake = {"impl": "dir", "config": {"root": "../lake"}, "scope": scope}
        copied = {"impl": "memory", "config": {"name": f"{self.name}-{SPACE}"}, "mirror": {"from": "lake"}}
        top = {"version": 1, "name": f"{SPACE}{self.name}", "include": ["tables/*.yaml"]}
        self.write("lancens.yaml", {**top, "catalogs": {"lake": lake, "copied": copied}})
        blocks = {table: {"schema": [{"name": "id", "type": "int64"}]} for table in tables}
        self.write("tables/all.yaml", {"catalogs": {"lake": {"namespaces": {space: {"tables": blocks}}}}})

    def write(self, name: str, document: Any) -> None:
        (self.folder / name).write_text(yaml.safe_dump(document, sort_keys=False))

    def edit(self, old: str, new: str, name: str = "tables/all.yaml") -> None:
        text = (self.folder / name).read_text()
        assert old in text, text
        (self.folder / name).write_text(text.replace(old, new))

    @property
    def lake(self) -> Any:
        return yaml.safe_load((self.folder / "lancens.yaml").read_text())["catalogs"]["lake"]

    def set_moved(self, lines: list[Any]) -> None:
        document = yaml.safe_load((self.folder / "lancens.yaml").read_text())
        document["catalogs"]["lake"]["moved"] = lines
        self.write("lancens.yaml", document)

    def run(self, environment: str, *arguments: str) -> Ran:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            return lancens(self.capsys, *arguments, "--var", f"env={environment}")

    def advice(self, environment: str) -> str:
        """Return what a plan prints, and the error that it ends with."""
        planned = self.run(environment, "plan")
        return planned.out + planned.err

    def follow(self, environment: str, text: str) -> bool:
        """Do what a plan advises; return whether there was anything."""
        found = re.findall(r"moved: \[(.*)\]", text)
        lines = [yaml.safe_load(line) for line in dict.fromkeys(found)]
        self.set_moved([*self.lake.get("moved", ()), *lines])
        for block in re.findall(r"`protect: false` in the block of (\S+),", text):
            document = yaml.safe_load((self.folder / "tables/all.yaml").read_text())
            [tables] = (space["tables"] for space in document["catalogs"]["lake"]["namespaces"].values())
            tables[block.rpartition("/")[2]]["protect"] = False
            self.write("tables/all.yaml", document)
        done = re.findall(r"remove its line from `moved` \(lancens.yaml:(\d+)\)", text)
        done += re.findall(r"or delete lancens.yaml:(\d+):\d+ if it has been applied", text)
        for number in done:
            old = yaml.safe_load((self.folder / "lancens.yaml").read_text().splitlines()[int(number) - 1].strip("- "))
            self.set_moved([line for line in self.lake["moved"] if line["from"] != old["from"]])
        commands = re.findall(r"`lancens (.*?)`", text)
        for command in commands:
            ran = self.run(environment, *shlex.split(command))
            assert ran.code == 0, (command, ran.err)
            assert not ran.out.startswith("0 of"), command
        kinds = {"moved": found, "protect": "`protect: false`" in text, "delete": done, "run": commands}
        self.followed |= {kind for kind, advised in kinds.items() if advised}
        return bool(lines or done)

    def converge(self) -> None:
        """Follow the advice until it leads to no edit, and apply in every environment: then nothing is left to do."""
        for _ in range(_ADVISED):
            if not self.follow(ENVIRONMENTS[0], self.advice(ENVIRONMENTS[0])):
                break
        for environment in ENVIRONMENTS:
            applied = self.run(environment, "apply", "--auto-approve")
            assert applied.code == 0, (environment, applied.out, applied.err)
            drift = self.run(environment, "drift")
            assert drift.code == 0, (environment, drift.out)


@contextmanager
def in_a_copy(folder: Path) -> Iterator[None]:
    """Undo what is done in the folder and in catalogs in memory."""
    copy, stores = folder.with_name("copy"), memory._stores_by_name
    shutil.copytree(folder, copy)
    kept = {name: (dict(store.namespaces), dict(store.tables)) for name, store in stores.items()}
    yield
    shutil.rmtree(folder)
    copy.rename(folder)
    for name, (namespaces, tables) in kept.items():
        stores[name].namespaces, stores[name].tables = namespaces, tables


Month = Callable[[Team, Team], None]


def rename_a_protected_table(ads: Team, _: Team) -> None:
    ads.edit("clicks:\n", "taps:\n")


def rename_a_namespace(_: Team, web: Team) -> None:
    web.edit(f"{SPACE}web:", f"{SPACE}web_site:")


def make_tables_outside(ads: Team, _: Team) -> None:
    backend = registry.connect("dir", {"root": str(ads.folder.parent / "lake")})
    for environment in ENVIRONMENTS:
        location = str(ads.folder.parent / f"lake/{environment}_job.lance")
        backend.insert_table((f"{environment}_ads", "job"), location, {})


def remove_a_table(ads: Team, _: Team) -> None:
    text = (ads.folder / "tables/all.yaml").read_text()
    (ads.folder / "tables/all.yaml").write_text(re.sub(r"          views:\n(            .*\n)+", "", text))


def rename_a_table_that_moved_before(_: Team, web: Team) -> None:
    web.edit("pages:\n", "sites:\n")


MONTHS: tuple[Month, ...] = (
    rename_a_protected_table,
    rename_a_namespace,
    make_tables_outside,
    rename_a_table_that_moved_before,
    remove_a_table,
)


def test_what_is_advised_in_a_year_of_two_teams_converges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    ads, web = (Team(name, home / name, capsys) for name in ("ads", "web"))
    ads.start("clicks", "imps", "views")
    web.start("pages", "users")
    ads.edit("clicks:\n", "clicks:\n            protect: true\n")
    for team in (ads, web):
        team.converge()
    backend = registry.connect("dir", {"root": str(home / "lake")})
    found = first = {table.location for table in backend.scan().tables.values()}
    for month in MONTHS:
        month(ads, web)
        for team in (ads, web):
            team.converge()
        with in_a_copy(home):
            for team in (ads, web):
                for environment in ENVIRONMENTS:
                    team.follow(environment, team.advice(environment))
                team.converge()
        found = {table.location for table in backend.scan().tables.values() if "_job" not in table.location}
        assert found <= first, "no table got an empty dataset beside the one that it had"
    assert (ads.followed, web.followed) == ({"moved", "protect", "run"}, {"moved", "delete"})
    assert len(first - found) == len(ENVIRONMENTS), "views alone has gone"
