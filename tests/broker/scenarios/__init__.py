"""What brokers are put through, one module for each kind of store."""
