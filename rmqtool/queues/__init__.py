"""Where queue units come from: one interface, with files, batch files and RocksDB after it."""
