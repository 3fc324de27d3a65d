"""Real brokers, the oracle."""
