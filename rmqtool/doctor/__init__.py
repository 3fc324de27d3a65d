"""What ails a store, what follows, and the one command to run next.

`host` looks at what is around the files: their owner, their modes, the disk. `examination` asks
the other rooms what they know; `advice` makes steps of it, the first one first; `report` makes
rows. No defect is found here that no other room knows, but for those of the host and of lengths
that are configured wrongly.
"""
