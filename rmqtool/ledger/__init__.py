"""What the log wants of its queues, held against what is there.

`numbers` says which queue offsets of one queue have lost their messages.
"""
