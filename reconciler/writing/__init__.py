"""Manifests that lancens writes: of live catalogs, into existing files, and of what a run removed."""
