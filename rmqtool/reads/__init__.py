"""Reads of tables: planned, read and exported in tasks, whatever engine runs them.

A read is a `SourceOptions`. `plan` cuts it into tasks, `readers` read one each as Arrow batches,
`fleet` does both for many stores. Nothing here knows an engine: `spark/` hands tasks to executors,
and `sql` to DuckDB in this process.
"""
