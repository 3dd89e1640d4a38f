"""Render plans, and test cases of any kind, as JUnit XML for CI systems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree import ElementTree

from reconciler.model import display
from reconciler.output.wording import entries_of, word_of
from reconciler.planner.entries import Blocked
from reconciler.planner.plan import Plan


@dataclass(frozen=True, slots=True)
class JunitCase:
    """One test case; ``suite`` is the name of its test suite, and a ``problem`` makes it a failure."""

    suite: str
    name: str
    text: str
    problem: str | None = None


def render_junit(plan: Plan) -> str:
    """Return the plan as test suites, one a catalog: blocked objects fail, changes pass."""
    blocked = [
        JunitCase(entry.catalog, f"blocked {entry.address}", f"{entry.reason}\n{entry.remedy}".strip(), entry.reason)
        for entry in plan.blocked
    ]
    changes = [
        JunitCase(entry.catalog, f"{word_of(entry)} {entry.address}", entry.reason)
        for entry in entries_of(plan)
        if not isinstance(entry, Blocked)
    ]
    return junit_xml("lancens plan", [summary.name for summary in plan.catalogs], [*blocked, *changes])


def junit_xml(name: str, suites: Iterable[str], cases: Iterable[JunitCase]) -> str:
    """Return test cases as JUnit XML, with a suite for each name in ``suites``."""
    root = ElementTree.Element("testsuites", name=name)
    by_suite: defaultdict[str, list[JunitCase]] = defaultdict(list)
    for case in cases:
        by_suite[case.suite].append(case)
    for suite in suites:
        members = by_suite[suite]
        failures = sum(case.problem is not None for case in members)
        node = ElementTree.SubElement(root, "testsuite", name=suite, tests=str(len(members)), failures=str(failures))
        for case in members:
            element = ElementTree.SubElement(node, "testcase", classname=suite, name=display.message(case.name))
            if case.problem is None:
                ElementTree.SubElement(element, "system-out").text = _printable_lines(case.text)
            else:
                failure = ElementTree.SubElement(element, "failure", message=display.message(case.problem))
                failure.text = _printable_lines(case.text)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _printable_lines(text: str) -> str:
    return "\n".join(map(display.message, text.splitlines()))
