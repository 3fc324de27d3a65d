"""What `import rmqtool` finds on an executor: unpacks the package beside it, and becomes it.

Runs as `rmqtool/__init__.py` of the zip that `shipping` makes; imports nothing of the package. The
place depends on the bytes of the package only, so that compiled kernels are found again.
"""

import hashlib
import io
import os
import shutil
import stat
import tempfile
import zipfile

INNER = "package.zip"


def unpacked(data: bytes) -> str:
    """Give the directory with the unpacked package; unpack it where that is still to be done.

    Args:
        data: the zip.
    """
    user = os.getuid() if hasattr(os, "getuid") else 0
    name = f"rmqtool-{user}-{hashlib.sha256(data).hexdigest()[:24]}"
    target = os.path.join(tempfile.gettempdir(), name)  # noqa: PTH118 - light: each task starts so
    if not os.path.lexists(target):
        staged = tempfile.mkdtemp(prefix=f"{name}-")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            archive.extractall(staged)
        try:
            os.rename(staged, target)  # noqa: PTH104
        except OSError:  # another worker was first
            shutil.rmtree(staged, ignore_errors=True)
    facts = os.lstat(target)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != user:
        reason = f"{target} belongs to another user"
        raise ImportError(reason)
    return target


def become(names: dict[str, object]) -> None:
    """Let a module be the package that lies in its zip.

    Args:
        names: the globals of the module.
    """
    loader = names["__loader__"]
    above = os.path.dirname(str(names["__file__"]))  # noqa: PTH120
    data = loader.get_data(os.path.join(above, INNER))  # type: ignore[attr-defined] # noqa: PTH118
    home = os.path.join(unpacked(data), "rmqtool")  # noqa: PTH118
    path = os.path.join(home, "__init__.py")  # noqa: PTH118
    names["__path__"], names["__file__"] = [home], path
    with open(path, "rb") as file:  # noqa: PTH123
        exec(compile(file.read(), path, "exec"), names)  # noqa: S102 - the package itself


if __name__ == "rmqtool":
    become(globals())
