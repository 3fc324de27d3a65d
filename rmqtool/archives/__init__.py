"""Stores in archives: .tar, .tar.gz, .tar.zst and .zip, as a stranger may have made them.

1. `opening` recognises an archive by name and content, and finds the stores in it.
2. What is compressed is written to one temporary file without a name (`stream`, `zipped`).
3. `tarred` and `zipped` list the members; `members` judges their names.
4. From there on a member is read like any file: `store/archive.py`.
"""
