"""Files of variables: one block of names and texts, as ``--var-file`` takes."""

from __future__ import annotations

from pathlib import Path

from reconciler.manifest.faults import Faults, SourceFile
from reconciler.manifest.nodes import ScalarNode
from reconciler.manifest.reader import MAX_FILE_BYTES, read_document
from reconciler.model.errors import LancensError


def read_variables(path: str) -> dict[str, str]:
    """Return the variables in a file; a value is the text as it is written.

    Raises:
        LancensError: the file cannot be read.
        ManifestError: it is no block of names and texts; no value is in the message.
    """
    try:
        with Path(path).open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the path is not valid"
        raise LancensError(f"the variables in {path} cannot be read: {reason}") from None
    faults = Faults([SourceFile(path, str(Path(path).parent), path)])
    root = read_document(data, 0, faults)
    found = {}
    for name, node in {} if root is None else root.items():
        if isinstance(node, ScalarNode):
            found[name] = "" if node.is_null else node.text
        else:
            faults.at(node.key_place, f"variable `{name}` is no text; expected `{name}: value`")
    faults.raise_if_any()
    return found
