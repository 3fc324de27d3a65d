"""One page about a store, to attach to a ticket.

1. `gather` validates the store, looks on while the log is read, and asks for an overview.
2. `facts` is what came of it: bounded, however large the store is.
3. `segment_map`, `traffic_chart` and `bars` draw it; `page` puts all into one HTML file.
"""
