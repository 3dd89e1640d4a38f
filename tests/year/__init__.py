"""A year of a platform engineer: a fleet of tables in three catalogs, and what is asked of it month by month."""
