"""The arrows between the rooms: an import never goes up a layer, and no two rooms import each other."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from graphlib import TopologicalSorter

from tests.size import PACKAGE, nodes, sources

LAYERS: list[set[str]] = [
    {"model"},
    {"arrow_types", "storage"},
    {"backends", "manifest", "planner"},
    {"output", "applier", "namespace"},
    {"operations", "writing"},
    {"server", "conformance", "pipeline"},
    {"auditor"},
    {"report"},
    {"cli", "action"},
    {"__init__", "__main__", "backend", "spark"},
]


@cache
def modules() -> tuple[tuple[str, tuple[ast.AST, ...]], ...]:
    found = []
    for path in sources():
        name = ".".join(("reconciler", *path.relative_to(PACKAGE).with_suffix("").parts))
        found.append((name.removesuffix(".__init__"), nodes(path)))
    return tuple(found)


@cache
def imports(tree: tuple[ast.AST, ...]) -> tuple[str, ...]:
    return tuple(
        f"{node.module}.{alias.name}"
        for node in tree
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "reconciler"
        for alias in node.names
    )


def room(module: str) -> str:
    return [*module.split("."), "__init__"][1]


def test_no_import_goes_up_a_layer() -> None:
    layer = {name: height for height, names in enumerate(LAYERS) for name in names}
    found = {(room(module), room(target)) for module, tree in modules() for target in imports(tree)}
    assert {one for pair in found for one in pair} <= layer.keys()
    assert [pair for pair in sorted(found) if layer[pair[1]] > layer[pair[0]]] == []


def test_datasets_are_committed_to_in_one_place() -> None:
    """pylance's own create overwrites what has come since it looked, and its commits may clean up old versions."""
    found = {
        (name, node.attr)
        for name, tree in modules()
        for node in tree
        if isinstance(node, ast.Attribute)
        and room(name) != "conformance"
        and node.attr in ("LanceDataset", "write_dataset", "merge_insert", "update_config", "delete_config_keys")
    }
    assert found == {
        ("reconciler.storage.commits", "LanceDataset"),
        ("reconciler.storage.commits", "delete_config_keys"),
        ("reconciler.storage.rewrites", "LanceDataset"),  # in a temporary directory
        ("reconciler.storage.pylance", "write_dataset"),  # in memory
        ("reconciler.auditor.history", "write_dataset"),
    }
    modes = {
        ast.unparse(keyword.value)
        for name, tree in modules()
        for node in tree
        if room(name) != "conformance"
        and isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("write_dataset")
        for keyword in node.keywords
        if keyword.arg == "mode"
    }
    assert modes == {"'append'"}


def test_no_two_rooms_import_each_other() -> None:
    needs: defaultdict[str, set[str]] = defaultdict(set)
    for module, tree in modules():
        needs[room(module)] |= {room(target) for target in imports(tree)} - {room(module)}
    list(TopologicalSorter(needs).static_order())  # raises CycleError, which names the circle


def test_no_two_modules_import_each_other() -> None:
    trees = dict(modules())
    needs = {
        module: {
            found
            for target in imports(tree)
            if (found := target if target in trees else target.rpartition(".")[0]) in trees and found != module
        }
        for module, tree in trees.items()
    }
    list(TopologicalSorter(needs).static_order())


def test_the_planner_and_what_lies_below_it_do_no_input_or_output() -> None:
    forbidden = {"backends", "storage", "manifest", "operations", "applier"}
    reached = {room(target) for module, tree in modules() if room(module) == "planner" for target in imports(tree)}
    assert reached & forbidden == set()


def test_manifests_are_read_without_backends() -> None:
    reached = {room(target) for module, tree in modules() if room(module) == "manifest" for target in imports(tree)}
    assert reached - {"manifest"} == {"model", "arrow_types"}


def test_the_action_speaks_to_github_without_a_backend() -> None:
    reached = {room(target) for module, tree in modules() if room(module) == "action" for target in imports(tree)}
    assert "backends" not in reached


def test_only_the_rooms_that_offer_namespaces_import_lance_namespace() -> None:
    users = {
        room(module)
        for module, tree in modules()
        for node in tree
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lance_namespace")
    }
    assert users == {"namespace", "server", "conformance"}


def test_the_map_in_contributing_names_every_room() -> None:
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
    named = {name for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)/?`", row)}
    assert named == {room(module) for module, _ in modules()} - LAYERS[-1]


def test_no_two_classes_have_one_name() -> None:
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for module, tree in modules():
        for node in tree:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module)
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_the_name_of_a_module_says_which_it_is() -> None:
    """Each system has its `backend` and its `config`; any other name stands for few modules."""
    names = Counter(path.stem for path in sources() if path.name != "__init__.py")
    assert [name for name, times in names.items() if times > 5 and name not in ("backend", "config")] == []
    assert not {"places", "utils", "helpers", "misc"} & names.keys()
