"""JUnit XML, for CI systems that show test reports."""

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
class Case:
    """One test case: ``suite`` groups it, and ``problem`` makes it a failure."""

    suite: str
    name: str
    text: str
    problem: str | None = None


def render_junit(plan: Plan) -> str:
    """Return the plan as test suites, one a catalog: blocked objects fail, changes pass."""
    blocked = [
        Case(one.catalog, f"blocked {one.address}", f"{one.reason}\n{one.remedy}".strip(), one.reason)
        for one in plan.blocked
    ]
    changes = [
        Case(one.catalog, f"{word_of(one)} {one.address}", one.reason)
        for one in entries_of(plan)
        if not isinstance(one, Blocked)
    ]
    return junit_of("lancens plan", [summary.name for summary in plan.catalogs], [*blocked, *changes])


def junit_of(name: str, suites: Iterable[str], cases: Iterable[Case]) -> str:
    """Return test cases as JUnit XML, with a suite for each name in ``suites``."""
    root = ElementTree.Element("testsuites", name=name)
    by_suite: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_suite[case.suite].append(case)
    for suite in suites:
        own = by_suite[suite]
        failures = sum(case.problem is not None for case in own)
        node = ElementTree.SubElement(root, "testsuite", name=suite, tests=str(len(own)), failures=str(failures))
        for case in own:
            made = ElementTree.SubElement(node, "testcase", classname=suite, name=display.message(case.name))
            if case.problem is None:
                ElementTree.SubElement(made, "system-out").text = _lines(case.text)
            else:
                failure = ElementTree.SubElement(made, "failure", message=display.message(case.problem))
                failure.text = _lines(case.text)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _lines(text: str) -> str:
    return "\n".join(map(display.message, text.splitlines()))
