"""`python -m rmqtool`, for when the console script is not on the path."""

import sys

from rmqtool.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
