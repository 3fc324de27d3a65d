"""`repair --from`: what is damaged in a store, and sound in a replica of it, comes from there.

1. `log/borrowed.py` tells what of the replica's log may stand in place of what is damaged.
2. `lending.py` makes the edits that bring it, and `files.py` those for configuration.
3. The store is then planned as if these were made (`edited_place.py`): queues, index and all else
   follow from the log as it will be, and a bridge stands only where neither log has the record.
4. `folding.py` makes one plan of both, each edit against the store as it is.
"""
