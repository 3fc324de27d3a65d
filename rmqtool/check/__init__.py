"""Judge a store: columns and runs in, findings out.

1. `registry.py` holds every finding code: meaning, severity, consequence, remedy, command.
2. One module an artefact (`layout.py`, `checkpoint.py`, `index.py`, ...) yields findings.
3. `validate.py` calls them in the order that avoids follow-up errors (layout, commitlog, queues,
   ext, index, checkpoint and timer, JSON), groups what belongs together, and keeps the account
   of what was read and what was not.

What is wrong is data (`Finding`); nothing in here raises because of what a file contains.
"""
