"""The ``policies`` of a catalog: what holds for live tables without a block."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.manifest.catalogs import CatalogBlockReader
from reconciler.manifest.models import PolicyBlock
from reconciler.manifest.nodes import Node, ScalarNode, Sequence, entries_of
from reconciler.model.desired import DesiredPolicy


def read_policies(reader: CatalogBlockReader, node: Node) -> Iterator[DesiredPolicy]:
    """Yield the policies in the catalog's block ``node``, in order; errors go to the reader's problems."""
    policies_node, blocks = entries_of(node).get("policies"), reader.blocks
    if isinstance(policies_node, ScalarNode) and policies_node.is_null:
        return
    if policies_node is not None and not isinstance(policies_node, Sequence):
        message = f"`policies` in catalog {reader.catalog} is not a list; expected `policies: [{{match: ads/**}}]`"
        blocks.problems.add_at(policies_node.position, message)
        return
    for number, item in enumerate(policies_node or (), 1):
        subject = f"policy {number} of catalog {reader.catalog}"
        block = blocks.read(PolicyBlock, item, subject)
        if block is None:
            continue
        if block.match is None:
            if blocks.lacks("match", PolicyBlock, item):  # else it is an error already
                blocks.problems.add_at(
                    item.position, f"{subject} has no `match`; expected a glob, such as `match: ads/**`"
                )
            continue
        yield DesiredPolicy(
            pattern=block.match,
            match=blocks.scope([block.match], entries_of(item)["match"], f"`match` in {subject}", reader.capabilities),
            source=blocks.problems.source(item.position),
            properties=reader.properties(block.properties, item, subject),
            secret_keys=reader.secret_keys(item, block.properties),
            expect=block.maintain.expect_fields(block.expect),
            maintain=block.maintain.maintain_fields(),
        )
