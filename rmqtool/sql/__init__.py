"""SQL in this process: DuckDB asks the readers of `reads` for the rows of a store.

`scan` is a table that DuckDB reads: it is asked for columns and a filter, and reads no more than
they need. `dialect` has the names of functions that Spark SQL has, too. `questions` answers.
This is the only package that imports duckdb.
"""
