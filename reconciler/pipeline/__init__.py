"""The data pipeline, on PySpark: what one process should not read, look at or compare alone."""
