"""What the pages have a reader type works as it stands there, section by section."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages.blocks import Section, sections
from tests.pages.running import Place, Run
from tests.pages.runs import NOT_RUN, run_of


def _chapters() -> list[list[tuple[Section, Run]]]:
    """Return the sections that are run, each with those that its reader goes on with in the same folder."""
    chapters: list[list[tuple[Section, Run]]] = []
    for section in sections():
        run = run_of(section)
        if run is not None and run.make is None:
            assert chapters[-1][0][0].page == section.page
            chapters[-1].append((section, run))
        elif run is not None:
            chapters.append([(section, run)])
    return chapters


@pytest.mark.parametrize("chapter", _chapters(), ids=lambda chapter: str(chapter[0][0]))
def test_sections_work_as_they_are_written(
    chapter: list[tuple[Section, Run]], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "here").mkdir()
    place = Place(tmp_path / "here", request)
    for section, run in chapter:
        run.type(section, place, NOT_RUN)
    assert place.instead.keys() == place.replaced, "the page does not say this any more"
