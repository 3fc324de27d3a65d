"""A forensic toolkit for the store of an Apache RocketMQ broker.

Nothing is imported here: with `python -m rmqtool` the current directory, which may be that of a
store, is searched for modules until `__main__` takes it away.
"""

TYPE_CHECKING = False  # as type checkers know it, without the import
if TYPE_CHECKING:
    from rmqtool.library import OpenStore

__version__ = "1.0.0"
__all__ = ["__version__", "open_store"]


def open_store(path: str, broker_conf: str | None = None) -> "OpenStore":
    """Open a store root, a directory of it, or one file, read-only.

    Args:
        path: what to open.
        broker_conf: the broker's configuration file, for lengths and paths that are not usual.

    Raises:
        UnreadablePath: it does not exist or may not be read.
        NotAStore: nothing of a RocketMQ store was recognised.
    """
    from rmqtool import library  # in here: the command line imports this package first

    return library.open_store(path, broker_conf)
