"""One manifest for development, staging and production: what differs stands in a file of variables for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.backends import registry
from tests.cli.running import lancens

MANIFEST = """\
version: 1
name: shop
defaults:
  tables: {properties: {environment: "${var:environment}"}}
catalogs:
  lake:
    impl: dir
    config: {root: "${var:root}"}
    namespaces:
      features: {tables: {users: {schema: [{name: id, type: int64}]}}}
"""


def test_three_environments_come_from_one_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lancens.yaml").write_text(MANIFEST)
    for name in ("dev", "staging", "prod"):
        Path(f"{name}.vars.yaml").write_text(f"environment: {name}\nroot: ./lakes/{name}\n")

    for name in ("dev", "staging", "prod"):
        variables = ("--var-file", f"{name}.vars.yaml")
        saved = f"{name}.json"
        assert lancens(capsys, "plan", *variables, "-o", saved, "--detailed-exitcode").code == 2
        others = ("--var-file", "dev.vars.yaml" if name != "dev" else "prod.vars.yaml")
        refused = lancens(capsys, "apply", saved, *others, "--auto-approve")
        assert refused.code == 1, "a plan of one environment is not applied to another"
        assert lancens(capsys, "apply", saved, *variables, "--auto-approve").code == 0
        assert lancens(capsys, "drift", *variables).code == 0
        table = registry.connect("dir", {"root": f"lakes/{name}"}).load_table(("features", "users"))
        assert table.properties["environment"] == name
    assert sorted(path.name for path in Path("lakes").iterdir()) == ["dev", "prod", "staging"]
