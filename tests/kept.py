"""Where tests keep what is fetched or made once, outside the tree."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """Give that directory; it may not be there yet."""
    configured = os.environ.get("RMQTOOL_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "rmqtool"
