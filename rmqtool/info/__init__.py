"""What a store is, at a glance: `rmqtool info`."""
