"""`lancens plan --against REVISION`, in a git repository."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import lancens

MANIFEST = """\
version: 1
name: shop
include: [teams/*.yaml]
catalogs:
  lake:
    impl: dir
    config: {root: ./lake}
    namespaces:
      features:
        tables:
          users: {properties: {owner: "${file:owner.txt}", stage: "${var:stage}"}}
          near: {location: ./lake/near.lance}
"""
TEAM = "catalogs: {lake: {namespaces: {ads: {tables: {clicks: {}}}}}}\n"
PENDING = "lake (dir), pending before this change\n"


def git(*arguments: str) -> None:
    identity = ("-c", "user.name=tester", "-c", "user.email=tester@example.com")
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lakes/teams").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "lakes")
    files = {"lancens.yaml": MANIFEST, "teams/ads.yaml": TEAM, "owner.txt": "ml", "prod.vars.yaml": "stage: prod"}
    for name, text in files.items():
        Path(name).write_text(text)
    git("init", "--quiet", "--initial-branch", "main")
    git("add", "--all")
    git("commit", "--quiet", "--message", "before")


def edit(name: str, old: str, new: str) -> None:
    text = Path(name).read_text()
    assert old in text
    Path(name).write_text(text.replace(old, new))


def split(printed: str) -> tuple[set[str], set[str]]:
    """Return the objects that a plan shows as its own, and those that it shows as pending."""
    own, _, pending = printed.partition(PENDING)
    found = tuple({line.split()[1] for line in part.splitlines() if line.startswith("  + ")} for part in (own, pending))
    return found[0], found[1]


EVERYTHING = {"ads", "ads/clicks", "features", "features/users", "features/near"}


@pytest.mark.parametrize(
    ("name", "old", "new", "own"),
    [
        ("lancens.yaml", "name: shop", "# the same\nname: shop", set()),
        ("lancens.yaml", "          near", "          far: {}\n          near", {"features/far"}),
        ("teams/ads.yaml", "clicks: {}", "clicks: {}, imps: {}", {"ads/imps"}),
        ("owner.txt", "ml", "ads", {"features/users"}),
        ("prod.vars.yaml", "prod", "dev", {"features/users"}),
        ("lancens.yaml", "root: ./lake", "root: ./lake/sub", EVERYTHING),
        ("lancens.yaml", "name: shop", "name: market", EVERYTHING),
    ],
)
def test_what_a_change_does_itself_comes_first(
    capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, own: set[str]
) -> None:
    edit(name, old, new)
    if "sub" in new:
        edit("lancens.yaml", "./lake/near", "./lake/sub/near")
    arguments = ("--var-file", "prod.vars.yaml")
    planned = lancens(capsys, "plan", *arguments, "--against", "main", "-o", "plan.json")
    assert planned.code == 0, planned.err
    found = split(planned.out)
    assert found[0] == own
    assert found[0] | found[1] == EVERYTHING | own
    saved = json.loads(Path("plan.json").read_text())
    assert saved == json.loads(lancens(capsys, "plan", *arguments, "--format", "json").out), "the saved plan is whole"
    assert ("Approval covers what was pending before this change." in planned.out) == bool(found[1])
    for form, shown in (("markdown", "#### `lake` (dir), pending before"), ("html", "<h2>lake, pending before")):
        assert (shown in lancens(capsys, "plan", *arguments, "--against", "main", "--format", form).out) == bool(
            found[1]
        )
    assert lancens(capsys, "apply", "plan.json", *arguments, "--auto-approve").code == 0
    assert lancens(capsys, "drift", *arguments).code == 0


def test_files_of_variables_have_the_values_of_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever they are called; one outside the repository has its own values, and no file of others is read for it."""
    Path("any.vars").write_text("stage: any")
    git("add", "any.vars")
    git("commit", "--quiet", "--message", "variables")
    for name in ("any.vars", "prod.vars.yaml"):
        Path(name).write_text("stage: new")
        for files in ((name,), (name, "any.vars"), ("any.vars", name)):
            arguments = [word for file in files for word in ("--var-file", file)]
            assert split(lancens(capsys, "plan", *arguments, "--against", "main").out)[0] == {"features/users"}
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch/below"))
    (tmp_path / "scratch/below").mkdir()
    for folder in ("outside", "scratch/below/outside"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.yaml").write_text(f"stage: {folder}")
    outside = ("--var-file", str(tmp_path / "outside/x.yaml"))
    assert split(lancens(capsys, "plan", *outside, "--against", "main").out) == (set(), EVERYTHING)


def test_nothing_was_pending_where_another_file_leads(capsys: pytest.CaptureFixture[str]) -> None:
    edit("lancens.yaml", "root: ./lake", 'root: "${file:root.txt}", storage.key_file: lancens.yaml')
    Path("root.txt").write_text("./lake")
    arguments = ("plan", "--var", "stage=x", "--against", "HEAD")
    git("commit", "--quiet", "--all", "--message", "an untracked file")
    assert split(lancens(capsys, *arguments).out) == (set(), EVERYTHING)
    git("add", "--all")
    git("commit", "--quiet", "--message", "a tracked file")
    assert split(lancens(capsys, *arguments).out) == (set(), EVERYTHING)
    Path("root.txt").write_text(".")
    assert split(lancens(capsys, *arguments).out) == (EVERYTHING, set())


def test_a_hook_of_git_compares_the_manifest_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("deep").mkdir()
    for name in ("lancens.yaml", "teams", "owner.txt"):
        git("mv", name, f"deep/{name}")
    git("commit", "--quiet", "--message", "deep")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "lakes/.git"))
    monkeypatch.chdir("deep")
    assert split(lancens(capsys, "plan", "--var", "stage=x", "--against", "HEAD").out) == (set(), EVERYTHING)


def test_a_removal_that_was_pending_is_shown_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert lancens(capsys, "apply", "--var", "stage=x", "--auto-approve").code == 0
    edit("lancens.yaml", "          near: {location: ./lake/near.lance}\n", "")
    git("commit", "--quiet", "--all", "--message", "remove")
    edit("teams/ads.yaml", "clicks: {}", "imps: {}")
    planned = lancens(capsys, "plan", "--var", "stage=x", "--against", "HEAD")
    own, _, pending = planned.out.partition(PENDING)
    assert "- ads/clicks" in own
    assert "- features/near" in pending
    assert "2 to deregister" in planned.out


def test_links_are_those_of_the_other_commit(capsys: pytest.CaptureFixture[str]) -> None:
    Path("lancens.yaml").rename("base.txt")
    Path("shared").mkdir()
    Path("teams/ads.yaml").rename("shared/ads.yaml")
    Path("teams").rmdir()
    Path("teams").symlink_to("shared")
    Path("lancens.yaml").symlink_to("base.txt")
    git("add", "--all")
    git("commit", "--quiet", "--message", "links")
    edit("base.txt", "          near", "          far: {}\n          near")
    planned = lancens(capsys, "plan", "--var", "stage=x", "--against", "HEAD")
    assert split(planned.out) == ({"features/far"}, EVERYTHING)
    Path("lancens.yaml").unlink()
    Path("base.txt").rename("lancens.yaml")  # another file of this name now, and a link then
    planned = lancens(capsys, "plan", "--var", "stage=x", "--against", "HEAD")
    assert split(planned.out) == ({"features/far"}, EVERYTHING)


@pytest.mark.parametrize("target", ["/dev/zero", "../../secret.yaml", "gone.yaml", "other.yaml"])
def test_a_link_out_of_the_other_commit_is_not_followed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, target: str
) -> None:
    (tmp_path.parent / "secret.yaml").write_text(MANIFEST)
    Path("lancens.yaml").unlink()
    Path("lancens.yaml").symlink_to(target)
    Path("other.yaml").symlink_to("lancens.yaml")
    git("add", "--all")
    git("commit", "--quiet", "--message", "links")
    Path("lancens.yaml").unlink()
    Path("lancens.yaml").write_text(MANIFEST)
    planned = lancens(capsys, "plan", "--var", "stage=x", "--against", "HEAD")
    assert split(planned.out) == (EVERYTHING, set())
    assert "HEAD has no valid manifest here" in planned.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("version: 2\n", ": lancens.yaml: the manifest has no `catalogs`"),
        ("", "lancens.yaml: the manifest has no keys"),
        (None, "lancens.yaml: cannot be read"),
        (MANIFEST.replace("stage}", "region}"), "variable `region` is not given"),
    ],
)
def test_nothing_was_pending_without_a_valid_manifest(
    capsys: pytest.CaptureFixture[str], text: str | None, why: str
) -> None:
    if text is None:
        git("mv", "lancens.yaml", "other.yaml")
    else:
        Path("lancens.yaml").write_text(text)
    git("commit", "--quiet", "--all", "--message", "broken")
    Path("lancens.yaml").write_text(MANIFEST)
    Path("other.yaml").unlink(missing_ok=True)
    planned = lancens(capsys, "plan", "--var", "stage=x", "--against", "HEAD")
    assert split(planned.out) == (EVERYTHING, set())
    [told] = [line for line in planned.err.splitlines() if line.startswith("HEAD has no valid manifest here")]
    assert why in told


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--against", "nowhere"), "git has no commit `nowhere`"),
        (("--against=--output=x",), "git has no commit `--output=x`"),
        (("--against", "main", "--engine", "spark"), "--against is for --engine local"),
        (("-", "--against", "main"), "on standard input"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], error: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(MANIFEST.encode())))
    refused = lancens(capsys, "plan", "--var", "stage=x", *arguments)
    assert refused.code == 1
    assert error in refused.err


def test_a_folder_without_git_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "lakes/.git").rename(tmp_path / "gone")
    refused = lancens(capsys, "plan", "--var", "stage=x", "--against", "main")
    assert refused.code == 1
    assert "git rev-parse: fatal: not a git repository" in refused.err
    monkeypatch.setenv("PATH", "")
    assert "git cannot be started" in lancens(capsys, "plan", "--var", "stage=x", "--against", "main").err
