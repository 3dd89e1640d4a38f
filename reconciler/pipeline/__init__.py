"""The data pipeline: in one process, or on PySpark for catalogs too large for it."""
