"""Truth: what real brokers wrote is what the rules derive, byte for byte."""
