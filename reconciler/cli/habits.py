"""Commands and options that users of other tools type, and what lancens has instead."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

_NO_STATE = "lancens keeps no state: each plan reads the live catalogs; `lancens list` prints what is there"
_ENVIRONMENT = "an environment is a file of variables: write `--var-file prod.vars.yaml`, or name its manifest"
_YES = "write `--auto-approve`"
_OUTPUT = (
    "write `--format json` for JSON, or `> FILE`; `lancens plan -o FILE` saves a plan that `lancens apply FILE` takes"
)
_INSTALLED = "leave it out: lancens installs no plugins and keeps no state"
_MANIFEST = "name the manifest or its folder as an argument: `lancens {command} PATH`"
_SELECT = "write `--select CATALOG/NAMESPACE/TABLE`"
_SELECT_BELOW = "write `--select CATALOG/NAMESPACE/**`"
_SELECT_CATALOG = "write `--select 'CATALOG/**'`"
_SELECTING = frozenset({_SELECT, _SELECT_BELOW, _SELECT_CATALOG})
_GLOB = "write the glob as an argument: `lancens {command} 'CATALOG/**'`"
_TAKE_GLOBS = frozenset({"list", "release"})
_WHOLE = "leave it out: `lancens {command}` takes whole manifests"
_APPLY = "write `lancens apply`"
_PLAN = "write `lancens plan`"
_RUNS = "write `lancens runs`"
_SHOW = "write `lancens show CATALOG/NAMESPACE/TABLE`"
_LIST = "`lancens list` prints live tables, `lancens show ADDRESS` one of them"
_FORMATTER = "the manifest is YAML: any formatter of YAML may be used, and `lancens validate` checks it"
_REMOVE = "`absent: true` in a block plans the removal of its entry; no data is deleted"
_REMOVE_ALL = (
    "a block `NAME: {absent: true}`, or no block under `prune: owned` of the catalog, plans its removal; no command "
    "removes everything, and no data is deleted"
)
_NO_REVISIONS = f"{_APPLY}: it brings catalogs to the state of the manifest, without revisions"
_EDIT = "change the manifest: `lancens plan` shows the difference"
_DRIFT = "`lancens drift` tells whether the catalogs differ from the manifest"
_NO_LOCK = "lancens takes no lock: apply checks each object again before it writes"
_NO_ARTIFACTS = "leave it out: lancens builds nothing in this folder; `lancens plan -o FILE` saves a plan"
_GOES_ON = (
    "leave it out: one failure stops only what depends on it; `lancens apply --skip-blocked` leaves blocked objects out"
)

COMMANDS: Mapping[str, str] = {
    "destroy": _REMOVE_ALL,
    **dict.fromkeys(("delete", "rm", "drop", "invalidate"), _REMOVE),
    **dict.fromkeys(("state", "refresh", "taint", "untaint"), _NO_STATE),
    "force-unlock": _NO_LOCK,
    **dict.fromkeys(("output", "get", "table", "tables", "docs", "ls"), _LIST),
    **dict.fromkeys(("workspace", "env"), _ENVIRONMENT),
    **dict.fromkeys(("fmt", "format"), _FORMATTER),
    "console": "`lancens show ADDRESS` prints the values of an object, and where they come from",
    "graph": "`lancens plan` prints changes in the order of apply, which finds what depends on what",
    "providers": "`lancens doctor` prints each catalog's service",
    **dict.fromkeys(("describe", "explain", "cat", "info"), _SHOW),
    "diff": f"{_PLAN}; `lancens drift` also exits with 2 if the catalogs differ",
    "preview": _PLAN,
    **dict.fromkeys(("up", "deploy", "run", "build", "sync", "push", "reconcile"), _APPLY),
    "create": f"{_APPLY}: it creates what the manifest names and the catalog lacks",
    **dict.fromkeys(("upgrade", "migrate"), _NO_REVISIONS),
    **dict.fromkeys(
        ("downgrade", "rollback", "undo"),
        "apply the manifest of an older commit: `lancens plan` shows what that changes",
    ),
    **dict.fromkeys(("current", "heads", "status", "stamp"), f"{_DRIFT}; there are no revisions"),
    **dict.fromkeys(
        ("seed", "query", "sql", "evaluate"), "lancens loads and queries no rows; `lancens list` prints live tables"
    ),
    "clean": _NO_ARTIFACTS,
    "compile": "write `lancens validate`, or `lancens plan`, which shows what apply would do",
    "login": "credentials are keys of a catalog's `config`, or in the environment; `lancens doctor` checks them",
    **dict.fromkeys(("mv", "rename"), "write `moved: [{from: OLD, to: NEW}]` in the catalog, and plan"),
    **dict.fromkeys(("edit", "set"), _EDIT),
    "revision": f"{_EDIT}, and there are no revisions",
    "pull": "write `lancens import`, which writes a manifest of what is live",
    **dict.fromkeys(("history", "log", "logs"), _RUNS),
    "check": "write `lancens validate`, which reads no catalog, or `lancens doctor`, which does",
    "lint": "write `lancens validate`",
    "debug": "write `lancens doctor`",
    **dict.fromkeys(("compact", "optimize"), "write `lancens maintain`"),
    **dict.fromkeys(
        ("vacuum", "janitor"),
        "lancens deletes no data: run pylance's `cleanup_old_versions`, or set `lance.auto_cleanup.*`",
    ),
    "help": "write `lancens --help`, or `lancens COMMAND --help`",
    "version": "write `lancens --version`",
}

OPTIONS: Mapping[str, str] = {
    "--auto-approve": "`lancens apply --auto-approve` applies without a question; other commands change nothing",
    **dict.fromkeys(
        ("--no-color", "--no-colour", "--color", "--colour", "--no-ansi"), "set the environment variable NO_COLOR=1"
    ),
    **dict.fromkeys(("--target", "--models", "--table", "-s", "-l"), _SELECT),
    **dict.fromkeys(("--namespace", "-n"), _SELECT_BELOW),
    **dict.fromkeys(("--catalog", "--database"), _SELECT_CATALOG),
    **dict.fromkeys(("-o", "--out", "--output"), _OUTPUT),
    "--json": "write `--format json`",
    "--dry-run": "`lancens plan` changes nothing",
    **dict.fromkeys(
        ("--yes", "-y", "--approve", "--auto-apply", "--auto", "--assume-yes", "--no-prompts", "--no-prompt"), _YES
    ),
    "--force": "lancens never overrides a check; what a plan blocks names what to do",
    **dict.fromkeys(("--env", "--environment", "--workspace", "--profile"), _ENVIRONMENT),
    **dict.fromkeys(
        ("--chdir", "--file", "-f", "--filename", "--project-dir", "--config", "--manifest", "-c"), _MANIFEST
    ),
    "--destroy": _REMOVE_ALL,
    "--replace": "nothing is replaced: a table is updated in place, or its plan is blocked and names what to do",
    **dict.fromkeys(("--refresh", "--state"), _NO_STATE),
    "--refresh-only": _DRIFT,
    **dict.fromkeys(("--lock", "--no-lock", "--lock-timeout"), _NO_LOCK),
    **dict.fromkeys(
        ("--input", "--no-input", "--interactive"),
        "leave it out: nothing is asked where no terminal is, and apply needs `--auto-approve` there",
    ),
    **dict.fromkeys(
        ("--verbose", "-v", "--log-level"), "write `lancens --debug COMMAND`; `lancens --version` prints the version"
    ),
    **dict.fromkeys(("--set", "--vars", "--extra-vars", "-e"), "write `--var NAME=VALUE`, once for each variable"),
    **dict.fromkeys(("--concurrency", "--threads", "--workers", "-j"), "write `--parallelism NUMBER`"),
    **dict.fromkeys(("--upgrade", "--reconfigure", "--migrate-state", "--backend-config"), _INSTALLED),
    **dict.fromkeys(("--target-dir", "--target-path", "--artifact-dir"), _NO_ARTIFACTS),
    **dict.fromkeys(("--continue-on-error", "--keep-going", "--ignore-errors", "--fail-fast", "-k"), _GOES_ON),
    "--exit-code": "`lancens drift` exits with 2 if the catalogs differ, as `lancens plan --detailed-exitcode` does",
    "--compact-warnings": "leave it out",
    "--select": _SELECT,
    **dict.fromkeys(
        ("--format", "--html", "--markdown", "--csv", "--sarif"),
        "plan, list and show have `--format`; `lancens audit --out DIR` writes HTML, JSON and SARIF",
    ),
    **dict.fromkeys(
        ("--root", "--uri", "--url", "--endpoint", "--region", "--path", "--warehouse", "--token"),
        "it is a key of a catalog's `config`: in the manifest, or as `--config KEY=VALUE` beside `--impl`",
    ),
    **dict.fromkeys(
        ("--timeout", "--retries", "--max-retries"),
        "`request_seconds` and `max_wait` in the `config` of a catalog limit how long its service may take",
    ),
    "-q": "write `--quiet`",
    "--strict": "leave it out: every error fails",
    "--rollback": "nothing is rolled back: apply again, or apply the manifest of an older commit",
    "--backup": _NO_STATE,
    "--fix": "`lancens doctor` and `lancens audit` change nothing; they name what to do",
    **dict.fromkeys(
        ("--compact", "--optimize", "--index"), "write what a table needs in its `maintain` block of the manifest"
    ),
    "--prune": "write `prune: owned` in the catalog of the manifest",
    "--full-refresh": "lancens writes no rows; a table that exists keeps its data",
}


_RESOURCE = re.compile(r"[A-Za-z_]\w*(\.[\w-]+(\[[^\]]*\])?)+")
_FILE = re.compile(r"\.(ya?ml|json)$")


def import_hint(argument: str) -> str | None:
    """Return what to write instead of an address of Terraform's that `import` was given; None for another argument."""
    if _RESOURCE.fullmatch(argument) is None or _FILE.search(argument) is not None:
        return None
    return (
        f"`{argument}` is no manifest. `lancens import --select CATALOG/NAMESPACE/TABLE` writes the block of a live "
        "table, and `lancens apply --adopt` marks it as managed"
    )


def option_hint(argument: str, command: str | None, known: Collection[str]) -> str | None:
    """Return what to write instead of an option of another tool; None for any other argument.

    Args:
        argument: as typed, possibly with ``=VALUE``.
        command: the command that it was typed for.
        known: the options of that command.
    """
    name = argument.partition("=")[0]
    if name in known:
        return None
    long = f"-{name}" if re.fullmatch(r"-[a-z][a-z-]+", name) else name
    if name != long and long in known:
        return f"write `{long}`"
    if name == "-o" and "--out" in known:
        return "write `--out`"
    hint = OPTIONS.get(long)
    if hint in _SELECTING and "--select" not in known:
        hint = _GLOB if command in _TAKE_GLOBS else _WHOLE
    return hint and hint.replace("{command}", command or "plan")
