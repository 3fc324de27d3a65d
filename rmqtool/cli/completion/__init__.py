"""Completion of command lines: `answer.py` asks the declarations, `values.py` a store."""
