"""Records out of bytes that are no store: images of disks, cut segments, swap, core files.

1. `image` opens what the user named: a file, a compressed one, a block device.
2. `search` looks through its parts for records, with the kernels of `kernels`. Records that follow
   each other, here and in their log, are one run.
3. `runs` keeps all runs, tells stores apart by their hosts, and finds those out of line: a copy of
   a record in the body of another one lies anywhere, a file on a disk begins where a sector does.
4. `places` puts the runs of a store in the order of its log: what comes twice is kept once.
5. `reading` reads the kept records again and proves them again; `writing_out` writes them.

No length that is found in data allocates memory, and no record is read more often than a few times.
"""
