"""``lancens test``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from reconciler.cli.options import format_option
from reconciler.cli.results import write_result
from reconciler.model import display
from reconciler.model.display import count

if TYPE_CHECKING:
    from reconciler.operations.testing import Failure, PlanEntry

_DEFAULT_FOLDER = "tests"
_MOST_NAMED = 3


@click.command("test")
@click.argument("files", nargs=-1, metavar="[FILE|FOLDER]...", type=click.Path())
@click.option("--allow-outside", is_flag=True, help="Allow files outside the folders of the tests and the manifest.")
@format_option("How to print the results.", ("text", "junit"))
def command(files: tuple[str, ...], allow_outside: bool, form: str) -> None:
    """Plan described live states, and check what each plan contains: exit 1 if a test fails.

    No service, storage or credentials are used. FILE is a YAML file of tests; the default is the folder tests.

    \b
    Examples:
      lancens test
      lancens test tests/rename.yaml
      lancens test --format junit > tests.xml
    """
    from reconciler.operations.plan_tests import find_files, read_tests
    from reconciler.operations.testing import run_test

    paths = find_files(files or (_DEFAULT_FOLDER,))
    tests = [(path, test) for path in paths for test in read_tests(path, allow_outside=allow_outside)]
    results = [(path, test, run_test(test)) for path, test in tests]
    failed = sum(bool(failures) for _, _, failures in results)
    if form == "junit":
        from reconciler.output.junit import JunitCase, junit_xml

        cases = [
            JunitCase(path, test.name, "\n".join(map(_sentence, failures)), next(map(_sentence, failures), None))
            for path, test, failures in results
        ]
        write_result(junit_xml("lancens test", paths, cases))
    else:
        cells = [[display.printable(text) for text in (path, test.name)] for path, test in tests]
        widths = [max(map(display.width_of, column)) for column in zip(*cells, strict=True)]
        lines = [
            line
            for names, (*_, failures) in zip(cells, results, strict=True)
            for line in _lines(names, widths, failures)
        ]
        done = f"{len(results) - failed:,} ok, {failed:,} failed"
        write_result("\n".join([*lines, f"{count(len(results), 'test')} in {count(len(paths), 'file')}: {done}"]))
    sys.exit(1 if failed else 0)


def _lines(names: Sequence[str], widths: Sequence[int], failures: Sequence[Failure]) -> Iterator[str]:
    yield "  ".join((*map(display.padded, names, widths), "FAILED" if failures else "ok"))
    for failure in failures:
        yield f"        {failure.expectation.source}: {display.printable(_sentence(failure))}"


def _sentence(failure: Failure) -> str:
    expected, is_wanted, _ = failure.expectation
    subject = f"`{expected.action}`" if expected.action else "an entry" if is_wanted else "entry"
    subject += f" of {expected.address}" + (f" with the code `{expected.code}`" if expected.code else "")
    entries = "; ".join(map(_entry_text, failure.entries[:_MOST_NAMED]))
    more = f"; and {len(failure.entries) - _MOST_NAMED:,} more" if len(failure.entries) > _MOST_NAMED else ""
    verdict = f"the plan has {entries}{more}" if entries else "the plan has nothing there"
    return f"expected {'' if is_wanted else 'no '}{subject}, but {verdict}"


def _entry_text(entry: PlanEntry) -> str:
    from reconciler.operations.testing import word_of_entry
    from reconciler.planner.entries import Note

    if isinstance(entry, Note):
        return f"`{word_of_entry(entry)}` `{entry.code}`: {entry.message}"
    source = f" ({entry.source})" if entry.source else ""
    return f"`{word_of_entry(entry)}` of {entry.address}, `{entry.code}`: {entry.reason}{source}"
