"""The public tables: what is in a store, as Arrow batches or plain rows with promised columns.

One module an artefact. Schemas are Spark-shaped: signed integers, plain strings,
`timestamp[us, UTC]`, all nullable.
"""
