"""``opa eval`` by regorus, which evaluates Rego as OPA does and comes as a wheel: OPA itself is a minute of compiling.

It takes the options of the documentation, and is given the folder of the library before them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path


def main() -> int:
    """Print what is defined; return 1 if anything is, and that is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("command", choices=["eval"])
    parser.add_argument("--fail-defined", action="store_true")
    parser.add_argument("--data", action="append", type=Path, default=[])
    parser.add_argument("--input", required=True)
    parser.add_argument("query")
    options = parser.parse_args()
    sys.path.insert(0, options.library)
    engine = importlib.import_module("regorus").Engine()
    for data in options.data:
        for path in data.rglob("*.rego") if data.is_dir() else [data]:
            add = engine.add_policy_from_file if path.suffix == ".rego" else engine.add_data_from_json_file
            add(str(path))
    engine.set_input_from_json_file(options.input)
    answer = json.loads(engine.eval_query_as_json(options.query))
    print(json.dumps(answer))
    return 1 if options.fail_defined and answer.get("result") else 0


if __name__ == "__main__":
    sys.exit(main())
