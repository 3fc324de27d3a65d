"""What a start does to queues in RocksDB, and to what else brokers keep in RocksDB."""
