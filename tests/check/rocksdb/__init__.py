"""RocksDB databases: no false alarm, no miss."""
