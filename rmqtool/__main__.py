"""`python -m rmqtool`, for when the console script is not on the path."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # Python searches the current directory first, which may be that of a store.
        del sys.path[0]
    from rmqtool.cli.main import main

    sys.exit(main())
