from __future__ import annotations

import re
from html import unescape

from tests.unit.output.examples import small_plan
from tests.unit.output.picture import PICTURE, screen


def test_the_readme_picture_shows_what_a_plan_looks_like_today() -> None:
    picture = PICTURE.read_text(encoding="utf-8")
    drawn = re.findall(r"<text [^>]*clip-path=[^>]*>(.*?)</text>", picture)
    seen = re.sub(r"\s+", "", unescape("".join(drawn)))
    assert seen == re.sub(r"\s+", "", screen(small_plan(), color=False)), "python -m tests.unit.output.picture"


def test_the_readme_picture_asks_for_nothing_from_elsewhere() -> None:
    picture = PICTURE.read_text(encoding="utf-8")
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", picture)
