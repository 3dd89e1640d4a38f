"""The README's picture of a plan; ``python -m tests.unit.output.picture`` draws it again."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from rich.text import Text

from reconciler.output import render
from reconciler.output.wording import read_line
from reconciler.planner.plan import Plan
from tests.unit.output.examples import small_plan

PICTURE = Path(__file__).parents[3] / "docs" / "images" / "plan.svg"
WIDTH = 96

# As rich has it, without the fonts it would fetch from elsewhere.
_FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: "Fira Code", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
}}
.{unique_id}-title {{ font: bold 18px system-ui, Arial, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def screen(plan: Plan, *, color: bool) -> str:
    """Return what the terminal shows: the command, what was read, the plan."""
    text = render(plan, "text", color=color, width=WIDTH)
    return f"$ lancens plan\n{read_line(plan)}\n\n{text}"


def draw(plan: Plan) -> str:
    """Return the picture as SVG."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text.from_ansi(screen(plan, color=True)), soft_wrap=True)
    svg = console.export_svg(title="lancens", code_format=_FORMAT, unique_id="plan")
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(draw(small_plan()), encoding="utf-8")
