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

COMMANDS: Mapping[str, str] = {
    "destroy": "`absent: true` in a block, or deleting the block under `prune: owned`, plans its removal; no command "
    "removes everything, and no data is deleted",
    "delete": "`absent: true` in a block plans the removal of its entry; no data is deleted",
    "state": _NO_STATE,
    "refresh": _NO_STATE,
    "taint": _NO_STATE,
    "untaint": _NO_STATE,
    "force-unlock": "lancens takes no lock: apply checks each object again before it writes",
    "output": "`lancens list --format json` prints the live tables, `lancens show ADDRESS` one of them",
    "workspace": _ENVIRONMENT,
    "env": _ENVIRONMENT,
    "fmt": "the manifest is YAML: any formatter of YAML may be used, and `lancens validate` checks it",
    "format": "the manifest is YAML: any formatter of YAML may be used, and `lancens validate` checks it",
    "console": "`lancens show ADDRESS` prints the values of an object, and where they come from",
    "graph": "`lancens plan` prints changes in the order of apply, which finds what depends on what",
    "providers": "`lancens doctor` prints each catalog's service",
    "get": "`lancens list` prints live tables, `lancens show ADDRESS` one of them",
    "describe": "write `lancens show CATALOG/NAMESPACE/TABLE`",
    "diff": "write `lancens plan`; `lancens drift` only tells whether the catalogs differ",
    "preview": "write `lancens plan`",
    "up": "write `lancens apply`",
    "deploy": "write `lancens apply`",
    "run": "write `lancens apply`",
    "build": "write `lancens apply`",
    "create": "write `lancens apply`: it creates what the manifest names and the catalog lacks",
    "upgrade": "write `lancens apply`: it brings catalogs to the state of the manifest, without revisions",
    **dict.fromkeys(
        ("downgrade", "rollback", "undo"),
        "apply the manifest of an older commit: `lancens plan` shows what that changes",
    ),
    **dict.fromkeys(
        ("current", "heads", "status", "stamp"),
        "`lancens drift` tells whether the catalogs differ from the manifest; there are no revisions",
    ),
    **dict.fromkeys(
        ("seed", "query", "sql", "evaluate"), "lancens loads and queries no rows; `lancens list` prints live tables"
    ),
    "clean": "leave it out: lancens builds nothing in this folder that must be cleaned",
    "compile": "write `lancens validate`, or `lancens plan`, which shows what apply would do",
    **dict.fromkeys(
        ("table", "tables", "docs"), "`lancens list` prints live tables, `lancens show ADDRESS` one of them"
    ),
    "login": "credentials are keys of a catalog's `config`, or in the environment; `lancens doctor` checks them",
    **dict.fromkeys(("mv", "rename"), "write `moved: [{from: OLD, to: NEW}]` in the catalog, and plan"),
    **dict.fromkeys(
        ("rm", "drop", "invalidate"), "`absent: true` in a block plans the removal of its entry; no data is deleted"
    ),
    **dict.fromkeys(("explain", "cat", "info"), "write `lancens show CATALOG/NAMESPACE/TABLE`"),
    **dict.fromkeys(("edit", "set"), "change the manifest: `lancens plan` shows the difference"),
    **dict.fromkeys(("sync", "push", "reconcile"), "write `lancens apply`"),
    "pull": "write `lancens import`, which writes a manifest of what is live",
    "migrate": "write `lancens apply`: it brings catalogs to the state of the manifest, without revisions",
    "revision": "change the manifest: there are no revisions, and `lancens plan` shows the difference",
    "history": "write `lancens runs`",
    "log": "write `lancens runs`",
    "check": "write `lancens validate`, which reads no catalog, or `lancens doctor`, which does",
    "lint": "write `lancens validate`",
    "debug": "write `lancens doctor`",
    "compact": "write `lancens maintain`",
    "optimize": "write `lancens maintain`",
    **dict.fromkeys(
        ("vacuum", "janitor"),
        "lancens deletes no data: run pylance's `cleanup_old_versions`, or set `lance.auto_cleanup.*`",
    ),
    "help": "write `lancens --help`, or `lancens COMMAND --help`",
    "version": "write `lancens --version`",
}

OPTIONS: Mapping[str, str] = {
    "--auto-approve": "`lancens apply --auto-approve` applies without a question; other commands change nothing",
    "--no-color": "set the environment variable NO_COLOR=1",
    "--target": "write `--select CATALOG/NAMESPACE/TABLE`",
    "--models": "write `--select CATALOG/NAMESPACE/TABLE`",
    **dict.fromkeys(("-o", "--out", "--output"), _OUTPUT),
    "--json": "write `--format json`",
    "--dry-run": "`lancens plan` changes nothing",
    "--yes": _YES,
    "-y": _YES,
    "--force": "lancens never overrides a check; what a plan blocks names what to do",
    "--env": _ENVIRONMENT,
    "--environment": _ENVIRONMENT,
    "--workspace": _ENVIRONMENT,
    "--profile": _ENVIRONMENT,
    "--chdir": _MANIFEST,
    "--file": _MANIFEST,
    "-f": _MANIFEST,
    "--filename": _MANIFEST,
    "--project-dir": _MANIFEST,
    "--destroy": COMMANDS["destroy"],
    "--replace": "nothing is replaced: a table is updated in place, or its plan is blocked and names what to do",
    "--refresh": _NO_STATE,
    "--refresh-only": "`lancens drift` tells whether the catalogs differ from the manifest",
    "--state": _NO_STATE,
    **dict.fromkeys(("--lock", "--no-lock", "--lock-timeout"), COMMANDS["force-unlock"]),
    **dict.fromkeys(
        ("--input", "--no-input", "--interactive"),
        "leave it out: nothing is asked where no terminal is, and apply needs `--auto-approve` there",
    ),
    **dict.fromkeys(
        ("--verbose", "-v", "--log-level"), "write `lancens --debug COMMAND`; `lancens --version` prints the version"
    ),
    **dict.fromkeys(("--config", "--manifest", "-c"), _MANIFEST),
    **dict.fromkeys(("--approve", "--auto-apply", "--assume-yes", "--no-prompts", "--no-prompt"), _YES),
    **dict.fromkeys(("--set", "--vars", "--extra-vars", "-e"), "write `--var NAME=VALUE`, once for each variable"),
    **dict.fromkeys(("--concurrency", "--threads", "--workers", "-j"), "write `--parallelism NUMBER`"),
    **dict.fromkeys(("--upgrade", "--reconfigure", "--migrate-state", "--backend-config"), _INSTALLED),
    **dict.fromkeys(("--catalog", "--database"), "write `--select 'CATALOG/**'`"),
    **dict.fromkeys(("--table", "-s", "-l"), "write `--select CATALOG/NAMESPACE/TABLE`"),
    "--exit-code": "`lancens drift` exits with 2 if the catalogs differ, as `lancens plan --detailed-exitcode` does",
    "--compact-warnings": "leave it out",
    "--prune": "write `prune: owned` in the catalog of the manifest",
    "--full-refresh": "lancens writes no rows; a table that exists keeps its data",
    "--namespace": "write `--select CATALOG/NAMESPACE/**`",
    "-n": "write `--select CATALOG/NAMESPACE/**`",
}


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
    hint = OPTIONS.get(long)
    return hint and hint.replace("{command}", command or "plan")
