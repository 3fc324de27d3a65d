"""Real brokers and consumers on bridged and repaired stores."""
