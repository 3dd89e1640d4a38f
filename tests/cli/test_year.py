"""A year of two teams: a manifest each, on one catalog with three environments, a mirror and clones.

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
        safety = {"min_tables": 1, "max_removal_percent": 40}
        top = {"version": 1, "name": f"{SPACE}{self.name}", "include": ["tables/*.yaml"], "safety": safety}
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

    def set(self, catalog: str, **keys: Any) -> None:
        """Write keys of a catalog; None takes one out."""
        document = yaml.safe_load((self.folder / "lancens.yaml").read_text())
        block = {**document["catalogs"].get(catalog, {}), **keys}
        document["catalogs"][catalog] = {key: value for key, value in block.items() if value is not None}
        self.write("lancens.yaml", document)

    def set_moved(self, lines: list[Any]) -> None:
        self.set("lake", moved=lines)

    def run(self, environment: str, *arguments: str) -> Ran:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            return lancens(self.capsys, *arguments, "--var", f"env={environment}")

    def run_all(self, *arguments: str) -> None:
        for environment in ENVIRONMENTS:
            ran = self.run(environment, *arguments)
            assert ran.code == 0, (environment, ran.out, ran.err)

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
        if "allow it with --allow-mass-removal" in text and not found:
            self.run_all("apply", "--allow-mass-removal", "--auto-approve")
        done = re.findall(r"remove its line from `moved` \(lancens.yaml:(\d+)\)", text)
        done += re.findall(r"or delete lancens.yaml:(\d+):\d+ if it has been applied", text)
        done += re.findall(r"(?m)^lancens.yaml:(\d+):.* delete the line if it has been applied", text)
        for number in sorted(set(done), key=int, reverse=True):
            old = yaml.safe_load((self.folder / "lancens.yaml").read_text().splitlines()[int(number) - 1].strip("- "))
            self.set_moved([line for line in self.lake["moved"] if not old.items() <= line.items()])
        commands = re.findall(r"`lancens (.*?)`", text)
        for command in commands:
            ran = self.run(environment, *shlex.split(command))
            assert ran.code == 0, (command, ran.err)
            assert not ran.out.startswith("0 of"), command
        kinds = {
            "moved": found,
            "moved, in an error": re.search("--allow-mass-removal.*\n.*moved: ", text),
            "protect": "`protect: false`" in text,
            "delete": done,
        }
        self.followed |= {kind for kind, advised in kinds.items() if advised}
        self.followed |= {f"lancens {command.split()[0]}" for command in commands}
        return bool(lines or done)

    def converge(self) -> None:
        """Follow the advice until it leads to no edit, and apply in every environment: then nothing is left to do."""
        for _ in range(_ADVISED):
            if not self.follow(ENVIRONMENTS[0], self.advice(ENVIRONMENTS[0])):
                break
        self.run_all("apply", "--auto-approve")
        self.run_all("drift")


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


def add_a_table_and_a_column(ads: Team, _: Team) -> None:
    ads.edit("imps:\n            schema:", "bids:\n            schema: []\n          imps:\n            schema:")
    ads.edit("schema: []", "schema:\n            - name: id\n              type: int64")
    ads.edit("imps:\n", "imps:\n            evolve: additive\n")
    head, name, tail = (ads.folder / "tables/all.yaml").read_text().partition("imps:\n")
    (ads.folder / "tables/all.yaml").write_text(head + name + tail.replace("type: int64", COUNTRY, 1))


def try_a_change_on_clones(_: Team, web: Team) -> None:
    root = {"name": f"web-clones-{SPACE}", "root": f"../clones/{SPACE}"}
    web.set("tried", impl="memory", config=root, clone={"from": "lake", "select": ["**/users"]})


def hold_a_table_back(ads: Team, _: Team) -> None:
    """Apply the other edits first: what is excluded waits."""
    ads.edit("bids:\n", "bids:\n            properties: {tier: gold}\n")
    ads.edit("imps:\n", "imps:\n            properties: {tier: gold}\n")
    ads.run_all("apply", "--exclude", "lake/*/bids", "--auto-approve")
    planned = ads.run(ENVIRONMENTS[0], "plan", "--summary").out
    assert ("~ lake/dev_ads/bids" in planned, "~ lake/dev_ads/imps" in planned) == (True, False)


def take_the_clones_away(_: Team, web: Team) -> None:
    web.set("tried", clone=None)


def follow_the_lake_no_more(ads: Team, _: Team) -> None:
    ads.set("copied", mirror=None)


def rename_a_namespace_back(_: Team, web: Team) -> None:
    web.edit(f"{SPACE}web_site:", f"{SPACE}web:")


def remove_a_protected_table(ads: Team, _: Team) -> None:
    ads.edit("taps:\n", "taps:\n            absent: true\n")
    head, name, tail = (ads.folder / "tables/all.yaml").read_text().partition("absent: true\n")
    kept = re.sub(r"            schema:\n(            [- ] .*\n)+", "", tail, count=1)
    (ads.folder / "tables/all.yaml").write_text(head + name + kept)


COUNTRY = "type: int64\n            - name: country\n              type: string"
MONTHS: tuple[Month, ...] = (
    rename_a_protected_table,
    rename_a_namespace,
    make_tables_outside,
    rename_a_table_that_moved_before,
    remove_a_table,
    add_a_table_and_a_column,
    try_a_change_on_clones,
    hold_a_table_back,
    take_the_clones_away,
    follow_the_lake_no_more,
    rename_a_namespace_back,
    remove_a_protected_table,
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
        made = {location for location in found - first if not location.endswith("$bids")}
        assert not made, "a table got an empty dataset beside the one that it had"
    assert ads.followed == {"moved", "protect", "delete", "lancens list", "lancens import"}
    assert web.followed == {"moved", "moved, in an error", "delete"}
    assert len(first - found) == 2 * len(ENVIRONMENTS), "views and taps alone have gone"
