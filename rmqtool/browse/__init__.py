"""A store on the terminal: screens over rows that the rooms below give; nothing is written.

1. `app.py` has the keys that work everywhere; `pages.py` says what each screen shows.
2. A page has a `RowSource` (`rows.py`, `records.py`): how many rows there are, and some of them.
   `table.py` draws those that are seen, and asks for no others.
3. Records are read by one thread (`reader.py`). What reads the whole store is a command of rmqtool
   in a process of its own (`commands.py`): its rows are the rows of the command line that the
   screen names, it can be left at any time, and its memory is not ours.
"""
