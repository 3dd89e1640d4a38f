"""What the pages have a reader type works as it stands there, section by section."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages.blocks import Section, sections
from tests.pages.running import Place
from tests.pages.runs import NOT_RUN, run_of


@pytest.mark.parametrize("section", [one for one in sections() if run_of(one) is not None], ids=str)
def test_a_section_works_as_it_is_written(section: Section, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    run = run_of(section)
    assert run is not None
    (tmp_path / "here").mkdir()
    place = Place(tmp_path / "here", request)
    run.type(section, place, NOT_RUN)
    assert place.instead.keys() == place.replaced, "the page does not say this any more"
