"""The daemon of Spark's Python workers, with all imported that each of them would import for a second of CPU."""

import importlib
import sys
import warnings

# Spark also puts PySpark on the path as an archive without compiled modules, which each worker reads four times.
sys.path[:] = [place for place in sys.path if not place.endswith(".zip")]
for place in [place for place in sys.path_importer_cache if ".zip" in place]:
    del sys.path_importer_cache[place]

warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)  # nothing was opened yet
_USED = ("pandas", "lance", "pyspark.sql.pandas.serializers", "reconciler.pipeline.engine", "reconciler.backends.dir")
for module in _USED:
    importlib.import_module(module)

if __name__ == "__main__":
    importlib.import_module("pyspark.daemon").manager()
