"""The Markdown of comments, issues and summaries, within the limits of GitHub."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from difflib import unified_diff
from itertools import chain

from reconciler.action.approval import ConfigChanges, PlanOrigin, approval_line, comparable_json, origin_line, plan_line
from reconciler.action.inputs import DEFAULT_LABEL, PlanKey
from reconciler.applier.report import ApplyReport, Status, result_line, unreferenced_lines
from reconciler.model import display
from reconciler.model.secret_forms import REDACTED
from reconciler.output import markdown_text, render
from reconciler.output.markdown import COMMENT_LIMIT, pull_request_comment, render_markdown
from reconciler.output.markdown_text import length_of
from reconciler.output.omissions import Omissions
from reconciler.output.wording import Entry, closing_line, entries_of, where_line_of
from reconciler.planner.entries import Blocked, Change, Key, Protection
from reconciler.planner.plan import Plan

_SUMMARY_LIMIT = 200_000
_LONGEST_BLOCK = 20_000
_RESULTS_SHOWN = 100
_COMPARED_LINES = 2_000
_LONGEST_MARKER = 200
_MANIFESTS_NAMED = 3


def cut_lines(lines: Iterable[str], longest: int) -> list[str]:
    """Return the lines that fit into ``longest`` characters, and a count of the rest."""
    fitting: list[str] = []
    room, left_out = longest, 0
    for line in lines:
        room -= length_of(line) + 1
        if room > 0:
            fitting.append(line)
        else:
            left_out += 1
    return [*fitting, f"… {left_out:,} more lines"] if left_out else fitting


def cut_code_block(lines: Iterable[str], language: str = "", longest: int = _LONGEST_BLOCK) -> str:
    """Return ``lines`` as a block of code of at most ``longest`` characters.

    No Markdown or mention in it has an effect.
    """
    return markdown_text.fenced(cut_lines(lines, longest), language)


def plan_comment(
    plan: Plan,
    *,
    key: PlanKey,
    origin: PlanOrigin,
    run_url: str,
    removal_notes: Mapping[Key, str],
    config_changes: ConfigChanges,
) -> str:
    """Return the comment on a pull request that shows ``plan``, without its marker.

    The comment approves the plan unless the plan is cut, to fit into a comment, or ``config_changes`` were cut.

    Args:
        plan: the plan to show.
        key: names the plan in the last line.
        origin: the commit and run of the plan.
        run_url: the page of the run, which has the whole plan.
        removal_notes: notes on the data of tables that the plan deregisters, by key.
        config_changes: are shown before the plan.
    """
    tail = f"\n<sub>{key_prefix(key)}[the whole plan is an artifact of this run]({run_url})</sub>\n"
    header = origin_line(origin) + "\n"
    limit = COMMENT_LIMIT - _LONGEST_MARKER - len(header) - length_of(tail) - length_of(config_changes.text) - 1
    approval = approval_line(plan) + "\n\n"
    omissions = Omissions()
    body = pull_request_comment(
        plan,
        commit=origin.commit,
        limit=limit,
        removal_notes=removal_notes,
        approves=config_changes.is_complete,
        reserve=len(approval),
        omissions=omissions,
    )
    if omissions or not config_changes.is_complete:
        return header + "\n" + config_changes.text + body + tail
    attachment = plan_line(plan)
    fits = len(attachment) < limit - len(approval) - length_of(body)
    return header + approval + config_changes.text + body + tail + (f"\n{attachment}" if fits else "")


def key_prefix(key: PlanKey) -> str:
    """Return the parts of ``key`` that name a plan, each with a dot behind it."""
    parts = [short_code_span(name) for name in (*key.manifests[:_MANIFESTS_NAMED], *key.files)]
    left_out = len(key.manifests) - _MANIFESTS_NAMED
    parts += [f"{left_out:,} more"] if left_out > 0 else []
    parts += [f"label {short_code_span(key.label)}"] if key.label != DEFAULT_LABEL else []
    return "".join(f"{part} · " for part in parts)


def plan_body(plan: Plan, *, run_url: str) -> str:
    """Return ``plan`` as the body of an issue, with a link to the run that made it."""
    tail = f"\n[The run that saw this]({run_url})\n"
    return plan_summary(plan, limit=COMMENT_LIMIT - len(tail) - 500) + tail


def plan_summary(plan: Plan, limit: int = _SUMMARY_LIMIT) -> str:
    """Return ``plan`` as Markdown for the summary of a step, cut to ``limit`` characters."""
    whole = render_markdown(plan)
    return whole if length_of(whole) <= limit else pull_request_comment(plan, limit=limit)


def applied_page(plan: Plan, report: ApplyReport) -> str:
    """Return the results of applying ``plan`` as Markdown, failures first."""
    done = report.counts[Status.DONE] + report.counts[Status.ALREADY]
    name = short_code_span(plan.manifest.name)
    ending = "" if report.ok else ", and not all"
    failed = [result_line(result) for result in report.results if not result.status.satisfies]
    succeeded = [result_line(result) for result in report.results if result.status.satisfies]
    lines = [*failed, *succeeded[:_RESULTS_SHOWN]]
    if len(succeeded) > _RESULTS_SHOWN:
        lines.append(f"  … and {len(succeeded) - _RESULTS_SHOWN:,} more that are done")
    lines += unreferenced_lines(report)
    where = markdown_text.code(where_line_of(plan, Omissions(may_cut=False)))
    title = f"### lancens apply of {name}: {done:,} of {len(report.results):,} done{ending}"
    return f"{title}\n\n{where}\n\n{cut_code_block(lines)}"


def opening_line(plan: Plan, key: PlanKey) -> str:
    """Return how to open the catalogs of ``plan``, with the variables that people may see."""
    given = [("--var", f"{name}={value}") for name, value in plan.manifest.given.items() if value != REDACTED]
    command = shlex.join(["lancens", "serve", *key.manifests, *chain.from_iterable(given)])
    return f"Open it: {markdown_text.code(display.printable(command))}"


def short_code_span(name: str) -> str:
    """Return ``name`` as a code span of Markdown, shortened if it is long."""
    return markdown_text.code(display.shorten(display.printable(name), 100))


def compare_plans(approved: Plan | None, current: Plan) -> str:
    """Return how the plan ``current`` differs from the approved one, as Markdown.

    ``approved`` is None if its comment had no room for the plan.
    """
    if approved is None:
        return (
            "The approved plan was too large for its comment; the artifact of the run that commented holds "
            f"it. Now:\n\n{cut_code_block(_plan_lines(current))}"
        )
    before, after = _entries(approved), _entries(current)
    removed = _entry_lines(approved, [entry for key, entry in before.items() if key not in after])
    added = _entry_lines(current, [entry for key, entry in after.items() if key not in before])
    lines = _diff_lines(removed, added)
    if not lines:
        lines = ["  the same changes, planned on another state of the catalogs or with another manifest"]
    return (
        f"Approved: {closing_line(approved)}\nNow: {closing_line(current)}\n\n"
        f"`-` was approved and is not planned any more, `+` is planned now and was not approved:\n\n"
        f"{cut_code_block(lines, 'diff')}"
    )


def _diff_lines(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return a diff of the lines; if there are many, equal lines are not searched for."""
    if max(len(before), len(after)) > _COMPARED_LINES:
        return [*(f"- {line}" for line in before), *(f"+ {line}" for line in after)]
    # With this much context there is one hunk, behind two lines of names and one of line numbers.
    diff = [*unified_diff(before, after, n=_COMPARED_LINES, lineterm="")]
    return [f"{line[0]} {line[1:]}" for line in diff[3:]]


def _entries(plan: Plan) -> dict[str, Entry]:
    """Return the entries of ``plan`` by their comparable JSON."""
    return {comparable_json(entry): entry for entry in entries_of(plan)}


def _entry_lines(plan: Plan, entries: Sequence[Entry]) -> list[str]:
    """Return the lines of ``entries`` in the text form of ``plan``, without its first line and its last."""
    if not entries:
        return []
    changes = tuple(entry.model_copy(update={"depends_on": ()}) for entry in entries if isinstance(entry, Change))
    guards = tuple(entry for entry in entries if isinstance(entry, Protection))
    blocked = tuple(entry for entry in entries if isinstance(entry, Blocked))
    return _plan_lines(
        plan.model_copy(update={"changes": changes, "guards": guards, "blocked": blocked, "waiting": (), "notes": ()})
    )[1:-1]


def _plan_lines(plan: Plan) -> list[str]:
    return [line for line in render(plan, "text", full=True).splitlines() if line]
