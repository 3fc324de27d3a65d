"""Spark: the data source, the engine, export and SQL."""
