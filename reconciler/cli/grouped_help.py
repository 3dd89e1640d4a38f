"""Help of commands with many options, in groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import click

GROUPS: Mapping[str, Sequence[str]] = {
    "What": (
        *("manifests", "impl", "config", "select", "exclude", "owned", "unmanaged", "blocked", "own_variables"),
        *("var_files", "against", "catalog", "adopt", "take_over", "recreate_lost", "with_schema", "from_storage"),
        *("policies", "name", "rules", "skipped", "limits", "depth", "stale_after"),
        *("since_last", "restore", "why", "affected", "extra_locations"),
    ),
    "Safety": (
        *("auto_approve", "dry_run", "skip_blocked", "allow_mass_removal", "expect_digest", "max_bytes", "max_tables"),
        *("until", "protected", "no_probe", "max_body", "timeout", "workers", "grace"),
    ),
    "Output": (
        *("out", "append", "form", "summary", "full", "detailed_exitcode", "fail_on"),
        *("journal", "history", "metrics", "profile"),
    ),
    "Access": (
        *("host", "port", "read_token_file", "write_token_file", "server_name", "allow_host", "allow_env"),
        *("allow_outside", "parallelism", "engine", "master", "conf", "partitions"),
    ),
}
"""The names of the options' values by the title of their group, the common ones first."""


_HYPHEN = "\N{NON-BREAKING HYPHEN}"


class _Formatter(click.HelpFormatter):
    """Breaks no line at a hyphen: names of rules and options have some."""

    def write(self, string: str) -> None:
        super().write(string.replace(_HYPHEN, "-"))

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _HYPHEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(name, text.replace("-", _HYPHEN)) for name, text in rows], col_max, col_spacing)


class _Context(click.Context):
    formatter_class = _Formatter


class GroupedCommand(click.Command):
    """A command whose help shows its options in :data:`GROUPS`; an option without one comes last."""

    context_class = _Context

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by group."""
        options = {option.name: option for option in self.get_params(ctx) if isinstance(option, click.Option)}
        known = {name for names in GROUPS.values() for name in names}
        for title, names in {**GROUPS, "Other": [name for name in options if name not in known]}.items():
            records = (options[name].get_help_record(ctx) for name in names if name in options)
            rows = [record for record in records if record is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
