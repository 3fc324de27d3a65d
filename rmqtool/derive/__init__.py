"""Records to dispatch runs: what a broker would put into queues and index, and where.

1. `dispatch` holds the rules of a broker line: which record goes where, and with which tags code.
2. `kernels` turn a batch of record columns into packed units and index entries, in log order.
3. `collector` keeps them for one part of the log; `dispatch` treats the rare records one by one
   (multi dispatch to LMQ, inner batches).
4. `queue_runs` sorts units by queue and cuts them where queue offsets do not go on; `index_runs`
   holds the entries of the key index in dispatch order.

A run is addressed by its queue offset, so nothing needs sorting between parts, and memory does not
grow with the store: one part gives one `Runs`.
"""
