"""Rebuild what a broker derives from its commitlog: consume queues and key index.

1. `derive` gives the dispatch runs of each part of the log, in parallel, in log order.
2. `placement` says where the units of a queue belong; `consume_queue` cuts them into files.
3. `index` adds entries to index files as a broker does; its kernel is in `index_kernels`.
4. `sinks` take the bytes: write them into a staged tree, or compare them with those on disk.
5. `work` puts it together; `in_place` swaps the result in under the broker's lock.
"""
