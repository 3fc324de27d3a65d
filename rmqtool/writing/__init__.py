"""The only room that writes: staging, edits, journal, undo, lock."""
