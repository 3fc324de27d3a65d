"""What the log wants of its queues, held against what is there.

`walk` gives the stretches of queues in files that differ, `sound` leaves out the queues that do
not; `numbers` says which queue offsets of one queue have lost their messages.
"""
