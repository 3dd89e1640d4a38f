"""Manifests that lancens writes: of live catalogs, into files that are there, and of what a run removed."""
