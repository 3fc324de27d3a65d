"""Tests of what the log wants of its queues, held against what is there."""
