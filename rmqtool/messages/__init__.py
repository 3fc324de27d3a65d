"""Messages out of a store, as they were sent."""
