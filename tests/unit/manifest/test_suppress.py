"""`suppress`: what it says, over several files, and every way to get it wrong."""

from __future__ import annotations

from datetime import date

import pytest

from reconciler import load
from reconciler.model.errors import ManifestError
from tests.unit.manifest.conftest import Load, Write, manifest

ENTRY = "{rule: orphan, match: 'old/**', until: 2027-06-30, reason: moved in June}"


def test_an_entry_is_read_with_its_place(load_text: Load) -> None:
    (found,) = load_text(manifest(f"suppress: [{ENTRY}]")).catalogs["lake"].desired.suppress
    assert (found.catalog, found.rule, found.match, found.until) == ("lake", "orphan", "old/**", date(2027, 6, 30))
    assert (found.reason, str(found.source)) == ("moved in June", "lancens.yaml:7")


def test_the_entries_of_all_files_count_and_change_no_plan(write: Write) -> None:
    second = f"catalogs:\n  lake:\n    suppress: [{ENTRY}]\n"
    both = load(write(lancens="include: [second.yaml]\n" + manifest(f"suppress: [{ENTRY}]"), second=second))
    assert len(both.catalogs["lake"].desired.suppress) == 2
    assert load(write(lancens=manifest("tables: {}"))).digest == both.digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("suppress: orphan", "`suppress` in catalog lake is `orphan`, expected a list"),
        ("suppress: [{rule: orphan, match: a, until: 2027-01-01}]", "an entry of `suppress` in catalog lake has no `r"),
        (f"suppress: [{ENTRY.replace('2027-06-30', 'June')}]", "expected a day such as 2027-06-30"),
        (f"suppress: [{ENTRY.replace('moved in June', chr(39) * 2)}]", "`suppress.1.reason` in catalog lake"),
        (f"suppress: [{ENTRY.replace('rule', 'rul')}]", "did you mean `rule`?"),
        ("suppress: [{rule: '${env:HOME}', match: a, until: 2027-06-30, reason: b}]", "values of the environment"),
    ],
)
def test_each_mistake_is_named_at_its_line(load_text: Load, text: str, said: str) -> None:
    with pytest.raises(ManifestError) as refused:
        load_text(manifest(text))
    assert "lancens.yaml:7:" in str(refused.value)
    assert said in str(refused.value)
