"""`maintain` in a table's block and in `defaults`."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.model.desired import DesiredTable
from reconciler.model.errors import ManifestError
from reconciler.model.maintenance import IndexType, Maintain, Metric, WantedCompaction, WantedIndex
from tests.writing import load_text

_MANIFEST = """\
version: 1
name: store
defaults: {{tables: {{maintain: {{compact: , optimize_indices: {{max_unindexed_rows: 5}}}}}}}}
catalogs:
  lake:
    impl: dir
    config: {{root: ./lake}}
    tables:
      plain: {{}}
      own:
        maintain: {maintain}
"""


def table(folder: Path, maintain: str, name: str = "own") -> DesiredTable:
    manifest = load_text(folder, _MANIFEST.format(maintain=maintain))
    return manifest.catalogs["lake"].desired.tables[(name,)]


def test_what_a_block_and_its_defaults_ask_for(tmp_path: Path) -> None:
    vectors = "{type: IVF_PQ, metric: dot, num_partitions: 8}"
    own = table(tmp_path, f"{{compact: {{target_bytes: 512MiB}}, indices: {{id: {{type: BTREE}}, v: {vectors}}}}}")
    wanted = WantedIndex("id", IndexType.BTREE), WantedIndex("v", IndexType.IVF_PQ, Metric.DOT, 8)
    assert own.maintain == Maintain(WantedCompaction(target_bytes=512 << 20), wanted)
    assert own.expect.indices == ("id", "v")
    assert table(tmp_path, "{}", "plain").maintain == Maintain(WantedCompaction(20, 1_048_576), (), 5)
    assert not table(tmp_path, "{}").maintain


@pytest.mark.parametrize(
    ("maintain", "named"),
    [
        ("{indicies: {}}", "`indices`"),
        ("{compact: {max_fragments: 3}}", "`max_small_fragments`"),
        ("{compact: {target_rows: 0}}", "1 or more"),
        ("{compact: {target_bytes: 91GiB}}", "96636764160 or less"),
        ("{compact: {target_bytes: much}}", "a number of bytes, such as 500GiB"),
        ("{indices: {id: {kind: BTREE}}}", "unknown key `kind`"),
        ("{indices: {'': {type: BTREE}}}", "names no column"),
        ("{indices: {id: }}", "a block of keys"),
        ("{indices: {id: {type: BTREEE}}}", "BTREE"),
        ("{indices: {id: {type: BTREE, metric: l2}}}", "for vectors"),
        ("{optimize_indices: {max_unindexed_rows: many}}", "a whole number"),
    ],
)
def test_a_wrong_block_is_named_with_its_line(tmp_path: Path, maintain: str, named: str) -> None:
    with pytest.raises(ManifestError) as caught:
        table(tmp_path, maintain)
    assert named in str(caught.value)
    assert "lancens.yaml:11:" in str(caught.value)
