"""The Markdown of comments, issues and summaries, within the limits of GitHub."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import unified_diff

from reconciler.action.approval import ConfigChanges, PlanOrigin, approval_line, essence, packed, shown_line
from reconciler.action.inputs import DEFAULT_LABEL, PlanKey
from reconciler.applier.report import ApplyReport, Status, result_line
from reconciler.model import display
from reconciler.output import markdown_text, render
from reconciler.output.markdown import COMMENT_LIMIT, pull_request_comment, render_markdown
from reconciler.output.markdown_text import length_of
from reconciler.output.omissions import Omissions
from reconciler.output.wording import Entry, closing_line, entries_of
from reconciler.planner.entries import Blocked, Change, Key, Protection
from reconciler.planner.plan import Plan

_SUMMARY_LIMIT = 200_000
_LONGEST_BLOCK = 20_000
_RESULTS_SHOWN = 100
_COMPARED_LINES = 2_000
_LONGEST_MARKER = 200
_MANIFESTS_NAMED = 3


def cut(lines: Iterable[str], longest: int) -> list[str]:
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


def fenced(lines: Iterable[str], language: str = "", longest: int = _LONGEST_BLOCK) -> str:
    """Return ``lines`` as a block of code, without effect of Markdown and mentions."""
    return markdown_text.fenced(cut(lines, longest), language)


def plan_comment(
    plan: Plan,
    *,
    key: PlanKey,
    shown: PlanOrigin,
    run_url: str,
    removed: Mapping[Key, str],
    first: ConfigChanges,
) -> str:
    """Return the comment on a pull request that shows ``plan``, without its marker.

    ``shown`` is the commit and run of the plan, ``removed`` has notes on the data of deregistered tables, ``first``
    comes before the plan. A plan too long for a comment is cut: the comment then says what was left out and approves
    nothing. It approves nothing either if ``first`` is not whole.
    """
    tail = f"\n<sub>{called(key)}[the whole plan is an artifact of this run]({run_url})</sub>\n"
    header = shown_line(shown) + "\n"
    limit = COMMENT_LIMIT - _LONGEST_MARKER - len(header) - length_of(tail) - length_of(first.text) - 1
    head = approval_line(plan) + "\n\n"
    omissions = Omissions()
    body = pull_request_comment(
        plan,
        commit=shown.commit,
        limit=limit,
        removed=removed,
        approves=first.whole,
        reserve=len(head),
        omissions=omissions,
    )
    if omissions or not first.whole:
        return header + "\n" + first.text + body + tail
    attached = packed(plan)
    fits = len(attached) < limit - len(head) - length_of(body)
    return header + head + first.text + body + tail + (f"\n{attached}" if fits else "")


def called(key: PlanKey) -> str:
    """Return the start of a line that names the plan by its key."""
    shown = [code(name) for name in (*key.manifests[:_MANIFESTS_NAMED], *key.files)]
    left_out = len(key.manifests) - _MANIFESTS_NAMED
    shown += [f"{left_out:,} more"] if left_out > 0 else []
    shown += [f"label {code(key.label)}"] if key.label != DEFAULT_LABEL else []
    return "".join(f"{name} · " for name in shown)


def plan_body(plan: Plan, *, run_url: str) -> str:
    """Return ``plan`` as the body of an issue."""
    tail = f"\n[The run that saw this]({run_url})\n"
    return plan_summary(plan, limit=COMMENT_LIMIT - len(tail) - 500) + tail


def plan_summary(plan: Plan, limit: int = _SUMMARY_LIMIT) -> str:
    """Return ``plan`` for the summary of a step, cut to ``limit`` characters."""
    whole = render_markdown(plan)
    return whole if length_of(whole) <= limit else pull_request_comment(plan, limit=limit)


def applied_page(plan: Plan, report: ApplyReport) -> str:
    """Return the results of applying ``plan``, failures first."""
    done = report.counts[Status.DONE] + report.counts[Status.ALREADY]
    name = code(plan.manifest.name)
    ending = "" if report.ok else ", and not all"
    failed = [result_line(result) for result in report.results if not result.status.satisfies]
    succeeded = [result_line(result) for result in report.results if result.status.satisfies]
    lines = [*failed, *succeeded[:_RESULTS_SHOWN]]
    if len(succeeded) > _RESULTS_SHOWN:
        lines.append(f"  … and {len(succeeded) - _RESULTS_SHOWN:,} more that are done")
    return f"### lancens apply of {name}: {done:,} of {len(report.results):,} done{ending}\n\n{fenced(lines)}"


def code(name: str) -> str:
    """Return ``name`` as a code span."""
    return markdown_text.code(display.shorten(display.printable(name), 100))


def difference(approved: Plan | None, now: Plan) -> str:
    """Return the difference between the approved plan and the current one."""
    if approved is None:
        return (
            "The approved plan was too large for its comment; the artifact of the run that commented holds "
            f"it. Now:\n\n{fenced(_lines(now))}"
        )
    before, after = _entries(approved), _entries(now)
    gone = _only(approved, [entry for key, entry in before.items() if key not in after])
    new = _only(now, [entry for key, entry in after.items() if key not in before])
    lines = _compared(gone, new)
    if not lines:
        lines = ["  the same changes, planned on another state of the catalogs or with another manifest"]
    return (
        f"Approved: {closing_line(approved)}\nNow: {closing_line(now)}\n\n"
        f"`-` was approved and is not planned any more, `+` is planned now and was not approved:\n\n"
        f"{fenced(lines, 'diff')}"
    )


def _compared(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return a diff of the lines; of too many, without a search for equal ones."""
    if max(len(before), len(after)) > _COMPARED_LINES:
        return [*(f"- {line}" for line in before), *(f"+ {line}" for line in after)]
    # With this much context there is one hunk, behind two lines of names and one of line numbers.
    compared = [*unified_diff(before, after, n=_COMPARED_LINES, lineterm="")]
    return [f"{line[0]} {line[1:]}" for line in compared[3:]]


def _entries(plan: Plan) -> dict[str, Entry]:
    return {essence(entry): entry for entry in entries_of(plan)}


def _only(plan: Plan, entries: Sequence[Entry]) -> list[str]:
    if not entries:
        return []
    changes = tuple(entry.model_copy(update={"depends_on": ()}) for entry in entries if isinstance(entry, Change))
    guards = tuple(entry for entry in entries if isinstance(entry, Protection))
    blocked = tuple(entry for entry in entries if isinstance(entry, Blocked))
    return _lines(
        plan.model_copy(update={"changes": changes, "guards": guards, "blocked": blocked, "waiting": (), "notes": ()})
    )[:-1]


def _lines(plan: Plan) -> list[str]:
    return [line for line in render(plan, "text", full=True).splitlines() if line]
