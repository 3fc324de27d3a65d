"""`python -m rmqtool.cli.manual man/` writes all pages."""

from __future__ import annotations

import sys

from rmqtool.cli.manual import REGENERATE, write

if __name__ == "__main__":
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program and a directory
        sys.exit(f"usage: {REGENERATE}")
    write(sys.argv[1])
