"""In which folder each section of the pages is typed, and what is not typed at all, with the reason."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import closing

import lance
import pyarrow as pa

from reconciler.auditor import history
from reconciler.backends import registry
from tests.catalogs.maintained import example
from tests.pages.blocks import ROOT, Section, first_yaml
from tests.pages.running import Place, Run
from tests.servers.glue import GlueServer
from tests.servers.go_tools import opa
from tests.servers.hive import Metastore
from tests.unit.pipeline.documents import small_document

__all__ = ["ANSWERS", "NOT_RUN", "RUNS", "TUTORIAL", "run_of"]

ADOPTING = "docs/adopt.md"
CLONES = "docs/clones.md"
ANSWERS = "docs/how-do-i.md"
MIGRATING = "docs/migrate.md"
PREVIEWS = "docs/preview-environments.md"
TUTORIAL = "docs/tutorial.md"
UPKEEP = "docs/tutorial-maintain.md"
_TOKEN = "a-token-of-the-tests-of-the-pages"

# ---- places


def _datasets(place: Place) -> None:
    """A directory with two datasets, and nothing of lancens."""
    for name in ("users", "orders"):
        lance.write_dataset(pa.table({"id": [1, 2]}), str(place.folder / f"lake/{name}.lance"))
    place.write("bin/editor", "#!/bin/sh\nsed -i 's/users: {}/users: {properties: {tier: gold}}/' \"$1\"\n")
    (place.folder / "bin/editor").chmod(0o755)
    place.environment["EDITOR"] = "editor"


def _from_page(page: str) -> Callable[[Place], None]:
    """The folder with the first manifest of a page."""

    def make(place: Place) -> None:
        place.write("lancens.yaml", first_yaml(ROOT / page))

    return make


def _shop(place: Place) -> None:
    """The folder in which the manifest of the page of answers was applied."""
    shutil.copytree(place.request.getfixturevalue("applied"), place.folder, dirs_exist_ok=True)


def _changed(place: Place) -> None:
    """That, and a change that is to be made."""
    _shop(place)
    manifest = place.folder / "lancens.yaml"
    manifest.write_text(manifest.read_text("utf-8").replace("tier: gold", "tier: silver"), "utf-8")


def _prod(place: Place) -> None:
    """That, and a manifest of another environment, which is applied as well."""
    _shop(place)
    place.write(
        "prod.yaml",
        "version: 1\nname: shop\ncatalogs:\n  prod:\n    impl: dir\n    config: {root: ./prod}\n"
        "    namespaces: {analytics: {tables: {clicks: {schema: [{name: url, type: string}]}}}}\n",
    )
    place.type("lancens", "apply", "prod.yaml", "--auto-approve")


def _prod_alone(place: Place) -> None:
    _prod(place)
    (place.folder / "prod.yaml").rename(place.folder / "lancens.yaml")


def _kept(place: Place) -> None:
    """A folder with the history of an audit."""
    history.append(str(place.folder / "audits.lance"), small_document(), {})
    _for_spark(place, "audits.lance")


def _queried(place: Place) -> None:
    _prod_alone(place)
    _for_spark(place, "lancens.yaml")


def _for_spark(place: Place, name: str) -> None:
    """Name a file by its whole path: the Spark that the pages share was not started in this folder."""
    place.instead[f'"{name}"'] = f'"{place.folder / name}"'


def _prod_without_manifest(place: Place) -> None:
    _prod(place)
    (place.folder / "lancens.yaml").unlink()


def _hive(place: Place) -> None:
    """A metastore with a Lance table, and a folder with no manifest."""
    hive: Metastore = place.request.getfixturevalue("hive")
    place.instead["thrift://metastore:9083"] = hive.uri


def _in_one_process(place: Place, *commands: str) -> None:
    """Leave Spark out of commands that start it where it is installed: it takes ten seconds of CPU each time."""
    for command in commands:
        place.instead[f"lancens {command}"] = f"lancens {command} --engine local"


def _audited(place: Place) -> None:
    _prod(place)
    _hive(place)
    _in_one_process(place, "audit")
    place.instead["s3://ops/lancens-audits.lance"] = "audits.lance"


def _of_spark(place: Place) -> None:
    """A directory as lance-spark jobs leave it: tables of its namespace, and a dataset that was written by path."""
    import lance_namespace  # the core collects this module, and does without

    catalog = lance_namespace.connect("dir", {"root": str(place.folder / "lake")})
    catalog.create_namespace(lance_namespace.CreateNamespaceRequest(id=["features"]))
    for name in ("users", "clicks"):
        lance.write_dataset(pa.table({"id": [1, 2]}), namespace_client=catalog, table_id=["features", name])
    lance.write_dataset(pa.table({"id": [1]}), str(place.folder / "lake/landing/events.lance"))


def _of_hive(place: Place) -> None:
    """A metastore with a database that is to be migrated, and an empty Glue."""
    hive: Metastore = place.request.getfixturevalue("hive")
    with closing(registry.connect("hive2", {"uri": hive.uri})) as backend:
        backend.insert_namespace(("shop",), {})
        for name in ("users", "clicks", "old"):
            lance.write_dataset(pa.table({"id": [1, 2, 3]}), str(place.folder / f"lake/{name}.lance"))
            backend.insert_table(("shop", name), str(place.folder / f"lake/{name}.lance"), {"owner": "ml"})
    _with_glue(place)
    place.instead["thrift://metastore:9083"] = hive.uri


def _environments(place: Place) -> None:
    place.write(
        "lancens.yaml",
        'version: 1\nname: shop\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: "${var:root}"}\n'
        '    tables: {users: {schema: [{name: id, type: int64}], properties: {env: "${var:environment}"}}}\n',
    )
    for name in ("dev", "prod"):
        place.write(f"{name}.vars.yaml", f"root: ./{name}-lake\nenvironment: {name}\n")


def _with_glue(place: Place) -> None:
    glue: GlueServer = place.request.getfixturevalue("glue")
    config = glue.config()
    place.environment.update(
        AWS_ACCESS_KEY_ID=config["access_key_id"],
        AWS_SECRET_ACCESS_KEY=config["secret_access_key"],
        AWS_ENDPOINT_URL_GLUE=config["endpoint"],
        NO_PROXY="127.0.0.1",
    )


def _doctored(place: Place) -> None:
    _shop(place)
    _with_glue(place)


def _served(place: Place) -> None:
    _shop(place)
    _hive(place)
    for name in ("reader", "writer"):
        place.write(name, _TOKEN + name)
        place.instead[f"/run/secrets/{name}"] = name
    place.instead["127.0.0.1:2333"] = f"127.0.0.1:{place.port}"
    place.instead["0.0.0.0"] = "127.0.0.1"  # noqa: S104 - of the page, and not listened on


def _behind_a_proxy(place: Place) -> None:
    _shop(place)
    for name in ("reader", "writer"):
        place.write(name, _TOKEN + name)


def _conforming(place: Place) -> None:
    place.instead["/tmp/lake"] = str(place.folder / "lake")
    place.instead["pytest "] = "pytest -k register "  # the command above makes all of the same checks


def _upkeep(place: Place) -> None:
    example(place.folder)


def _fleet(place: Place) -> None:
    _shop(place)
    _in_one_process(place, "inventory", "audit")  # the plan of the section is on Spark
    place.instead["local[8]"] = "local[2]"


def _policies(place: Place) -> None:
    place.write(
        "lancens.yaml",
        "version: 1\nname: shop\ncatalogs:\n  lake:\n    impl: dir\n    config: {root: ./lake}\n"
        "    tables: {users: {schema: [{name: id, type: int64}], properties: {owner: ml}}}\n",
    )
    shutil.copytree(ROOT / "examples/policy", place.folder / "examples/policy")
    (place.folder / "bin").mkdir()
    opa(place.folder / "bin")


def _tested(place: Place) -> None:
    place.write("lancens.yaml", "version: 1\nname: shop\ncatalogs:\n  lake: {impl: dir, config: {root: ./lake}}\n")
    place.write("tests/plans.yaml", first_yaml(ROOT / "docs/testing.md"))


def _to_clone(place: Place) -> None:
    """A catalog with two tagged tables, and the manifest of the page of clones."""
    _from_page(CLONES)(place)
    with closing(registry.connect("dir", {"root": str(place.folder / "prod")})) as backend:
        backend.insert_namespace(("features",), {})
        for name in ("events", "users"):
            table = backend.insert_table(("features", name), f"{place.folder}/prod/{name}.lance", {})
            lance.write_dataset(pa.table({"id": [1, 2]}), table.location)
            lance.write_dataset(pa.table({"id": [3]}), table.location, mode="append").tags.create("prod", 2)


def _nothing(place: Place) -> None:
    pass


# ---- what is run where, and what is not

_SPARK = ("spark",)

RUNS: Mapping[str, Run] = {
    "README.md#Try it": Run(
        _nothing, ("Plan: 2 to create", "Applied 2 of 2", "Plan: 1 to create", "Applied 1 of 1", "lake/features/clicks")
    ),
    "README.md#Tables that exist": Run(
        _datasets, ("Wrote lancens.yaml, manifest `here`: 0 namespaces, 2 tables", "No changes.", "+ tier: gold")
    ),
    "README.md#A fleet of tables": Run(_fleet, ("Wrote inventory.lance", "Report: report/audit.html", "No changes.")),
    "README.md#Documentation": Run(_changed),
    f"{ADOPTING}#Write the manifest": Run(_of_spark, ("Wrote lancens.yaml", "1 to register", "No data is deleted")),
    f"{ADOPTING}#Set defaults": Run(None, ("+ owner: ml-platform",)),
    f"{ADOPTING}#Adopt": Run(None, ("No changes.",)),
    f"{ADOPTING}#Keep up with new tables": Run(None, ("Added to lancens.yaml: 0 namespaces, 1 table", "No changes.")),
    "docs/apply.md": Run(_changed, ("Only `yes` is accepted", "Applied 1 of 1 change")),
    "docs/audit.md": Run(_audited, ("Report: report/audit.html",)),
    "docs/catalogs/memory.md": Run(_nothing),
    "docs/clients.md#Connecting": Run(_nothing),
    CLONES: Run(_to_clone, ("Applied 3 of 3 changes",)),
    f"{CLONES}#Take a preview away": Run(
        None, ("2 to deregister, 1 to drop", "Applied 3 of 3 changes", "2 clones have no entry any more")
    ),
    "docs/commands.md#Import": Run(_prod_without_manifest, ("analytics", "Wrote found.yaml")),
    "docs/commands.md#Release": Run(_prod, ("- managed-by: shop/lake", "~ analytics/clicks  update  released")),
    "docs/commands.md#Doctor": Run(_doctored, ('"detail": "glue: eu-west-1',)),
    "docs/conformance.md": Run(_conforming, ("passed",)),
    ANSWERS: Run(_shop),
    "docs/index.md": Run(_datasets, ("No changes.",)),
    "docs/maintain.md": Run(_upkeep, ("Jobs: 2 datasets to compact, 2 indices to build", "Applied 4 of 4 changes")),
    "docs/maintain.md#Review, then run": Run(_upkeep, ("2 to compact", "Applied 4 of 4 changes")),
    "docs/maintain.md#On Spark": Run(_upkeep, ("these small jobs", "Applied 4 of 4 changes")),
    "docs/manifest.md": Run(_from_page("docs/manifest.md"), ("is valid", "Plan: 2 to create", "Applied")),
    "docs/manifest.md#Environments": Run(
        _environments, ("at ./dev-lake/users.lance", "at ./prod-lake/users.lance", "Applied 1 of 1 change")
    ),
    f"{MIGRATING}#Mirror": Run(_of_hive),
    f"{MIGRATING}#While both are in use": Run(None),
    f"{MIGRATING}#Check": Run(None),
    f"{MIGRATING}#Cut over": Run(None),
    f"{MIGRATING}#Take the entries out of Hive": Run(
        None, ("2 to deregister, 1 to drop", "Applied 3 of 3 changes", "No changes.")
    ),
    "docs/pipeline.md": Run(_shop, ("Wrote inventory.lance",)),
    "docs/pipeline.md#Plans": Run(_changed, given=_SPARK),
    "docs/pipeline.md#In a notebook": Run(_prod_alone, ("kind",), _SPARK),
    "docs/pipeline.md#Your own queries": Run(_queried, ("count",), _SPARK),
    "docs/pipeline.md#What an audit found": Run(_kept, ("reclaimable",), _SPARK),
    "docs/plan.md": Run(_changed, ("tier: gold -> silver",)),
    "docs/plan.md#JSON": Run(_changed),
    "docs/plan.md#Policy engines": Run(_policies),
    "docs/python.md#Plan and apply": Run(_changed, ("tier: gold -> silver", "done")),
    "docs/python.md#Render a plan": Run(_changed, ("silver",)),
    "docs/python.md#Watch for drift": Run(_changed, ("drift: <Plan 'shop': update=1>", "0 unmanaged")),
    "docs/python.md#Maintain datasets": Run(_upkeep, ("2 datasets to compact",)),
    "docs/python.md#Release objects": Run(_shop, ("Applied 1 of 1 change",)),
    "docs/python.md#Check catalogs": Run(_shop, ("lake reading ok",)),
    "docs/python.md#Audit, inventory and import": Run(_shop, ("findings; complete", "objects", "users:")),
    "docs/python.md#Open tables by name": Run(_shop, ("0",)),
    "docs/python.md#Errors": Run(_nothing, ("missing.yaml",)),
    "docs/python.md#Types": Run(_nothing),
    "docs/monitoring.md#Metrics": Run(_changed, ("tier: gold -> silver",)),
    "docs/testing.md": Run(_tested, ("2 tests in 1 file: 2 ok, 0 failed",)),
    "docs/automation.md": Run(_shop, ("Applied 1 of 1 change",)),
    "docs/recovery.md#A wrong apply": Run(_shop, ("Applied 1 of 1 change", "clicks:")),
    "docs/recovery.md#A DROP outside of lancens": Run(_shop, ("register", "Applied 1 of 1 change", "No changes.")),
    "docs/recovery.md#Lost data": Run(_shop, ("its data is lost", "an empty dataset is made", "No changes.")),
    "docs/recovery.md#The manifest is lost": Run(_shop, ("Wrote lancens.yaml", "No changes.")),
    "docs/recovery.md#The catalog is lost": Run(_shop, ("No changes.", "Wrote found.yaml")),
    "docs/serve.md": Run(_served),
    "docs/tutorial.md#Write a manifest and apply it": Run(
        _from_page(TUTORIAL), ("Plan: 2 to create", "No changes.", "user_id: int64")
    ),
    "docs/tutorial.md#Change something": Run(None, ("Applied 1 of 1 change",)),
    "docs/tutorial.md#Adopt a table that is there already": Run(
        None,
        ("1 table in lake is not managed", "Added to lancens.yaml", "No changes."),
    ),
    f"{PREVIEWS}#Set up production": Run(_nothing, ("Applied 2 of 2 changes",)),
    f"{PREVIEWS}#Describe a preview": Run(None),
    f"{PREVIEWS}#Try a change": Run(None, ("Applied 2 of 2 changes", "age: [[null,null,null],[30]]")),
    f"{PREVIEWS}#Take it away": Run(None, ("Applied 2 of 2 changes",)),
    f"{UPKEEP}#Say what you want": Run(_from_page(UPKEEP)),
    f"{UPKEEP}#Review the jobs, then run them": Run(
        None, ("1 dataset to compact, 1 index to build", "No jobs.", "ScalarIndexQuery")
    ),
    f"{UPKEEP}#Add rows": Run(None, ("Jobs: 1 index to bring up to date",)),
    "docs/serve.md#Behind a proxy": Run(_behind_a_proxy),
}
"""How each section is run; each answer of the page of answers is run alike."""

NOT_RUN: Mapping[str, str] = {
    "make demo": "tests/cli/test_examples.py runs the demo",
    "make test": "runs this test",
    "make torture": "takes hours; tests/torture has a sample",
    ".venv/bin/python -m tests.torture": "takes hours; tests/torture has a sample",
    "docs/tutorial.md#Install": "needs an index; tests/unit/test_installing.py asks pip what it would install",
    "pip install": "needs an index; tests/unit/test_installing.py asks pip what it would install",
    "gh attestation verify": "needs GitHub, and a release",
    "lancens conformance --impl lance.namespace": "ends with 1; tests/catalogs/test_conformance.py runs it",
    "docs/pipeline.md#Where it runs": "packs an environment; tests/pipeline/test_cluster.py has one that is not packed",
    "docs/catalogs/rest.md#Tables whose versions the server keeps": "tests/catalogs/rest/test_managed.py runs it",
    "docs/conformance.md#In the tests of a backend": "needs the reader's backend; test_documented_backend.py has one",
    "docs/writing-a-backend.md": "is a module; test_documented_backend.py runs the conformance kit over it",
}
"""What is not run, and why: the beginning of a line, or a section."""


def run_of(section: Section) -> Run | None:
    """Return how a section is run; None where nothing says it."""
    page = str(section.page.relative_to(ROOT))
    return RUNS.get(str(section)) or (RUNS[page] if page == ANSWERS else None)
