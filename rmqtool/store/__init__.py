"""Where the bytes of a store lie, and nothing about what they mean.

1. `place` is the seam to the file system; nothing outside of it lists, opens or reads a file.
2. `segment` turns a directory of 20-digit names into one byte space, as the broker does.
3. `broker_conf` and `geometry` say how long each kind of file ought to be, and who says so.
4. `recognise` says what a directory or a lone file is, by place and by content.
5. `tree` joins these into a `Store`; `tail` finds the end of data; `overview` sums up.

Everything here opens read-only; only `output` writes.
"""
