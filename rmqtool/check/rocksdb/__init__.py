"""Judge RocksDB databases: their files, their rows, and the queues in them against the log."""
