"""Places on remote file systems, by URI: the same face as a local `Place`, read by ranges.

`s3://` is tested; `s3a://` of Hadoop means the same. What else `pyarrow.fs` opens by URI (`gs://`,
`abfs://`, `hdfs://`) goes the same way, untested. `file:` is the local file system and gives a
plain `Place`. An object store has no links and no holes, and the mtime of an object is when it was
uploaded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote, unquote, urlsplit

from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.store.entry import Entry, EntryKind, printable
from rmqtool.store.place import OpenFile, Place, count_read
from rmqtool.store.refused import note_refused
from rmqtool.store.remote_listing import NO_NAMES, Listing, known

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

# A lookup reads some bytes here and there, a scan all of them in turn; every request costs some
# 20 ms on an object store, whatever its length. So reads that go on where the last one ended
# double, up to 8 MiB.
SMALLEST_READ_BYTES: Final = 64 << 10
LARGEST_READ_BYTES: Final = 8 << 20
FILE_SYSTEMS: Final = 16
LONE_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")
HADOOP_S3: Final = re.compile(r"^s3[an]://", re.IGNORECASE)
LONE_QUESTION: Final = re.compile(r"\?(?![A-Za-z_]\w*=)")  # else it begins options
RESERVED: Final = "%:/?#[]@!$&'()*+,;=~"  # what means something in a URI stays as it is
REQUEST_ID: Final = re.compile(r" \(Request ID: [^)]*\)")


def place_of_uri(uri: str) -> Place:
    """Give the place of a URI; see `address.place_of`."""
    try:
        uri = LONE_QUESTION.sub("%3F", LONE_PERCENT.sub("%25", uri))
        uri = quote(HADOOP_S3.sub("s3://", uri), safe=RESERVED)
        parts = urlsplit(uri)
        if parts.scheme.lower() == "file":
            return _local(uri, parts.netloc, unquote(parts.path))
        shown = f"{parts.scheme.lower()}://{_host(parts.netloc)}{unquote(parts.path)}".rstrip("/")
    except ValueError as error:
        raise UnreadablePath(path=without_secrets(uri), reason=str(error)) from error
    path = _ask(shown, lambda: _opened(uri)[1])
    prefix = shown[: -len(path)] if path and shown.endswith(path) else f"{parts.scheme.lower()}://"
    return RemotePlace(prefix + path, uri, len(prefix))


@dataclass(frozen=True, slots=True)
class RemotePlace(Place):
    """A directory or file on a remote file system; small and picklable.

    Attributes:
        location: URI without credentials and options, names as they are.
    """

    # the URI that the user gave; opens the file system, and may hold credentials
    source: str = field(default="", repr=False)
    start: int = 0  # length of what stands in `location` before the file system's own path

    @property
    def path(self) -> str:
        """The path as the file system spells it."""
        return self.location[self.start :]

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> Self:
        """The directory that holds this place; itself at the top."""
        above, separator, _ = self.path.rpartition("/")
        return self._at(above) if separator and above else self

    def child(self, name: str) -> Self:
        """Give the place of a name in this directory."""
        return self._at(f"{self.path.rstrip('/')}/{name}")

    def resolved(self) -> Self:
        """Give itself: there are no links."""
        return self

    def stat(self) -> Entry | None:
        """Say what is here; None when nothing is."""
        if (listing := known(self.source, self.path)) is not None:
            return listing.stat(self.path)
        (info,) = _ask(str(self), lambda: self.file_system().get_file_info([self.path]))
        return None if info.type.name == "NotFound" else _entry(info)

    def names(self) -> list[tuple[str, EntryKind]]:
        """List this directory, sorted by name."""
        return [(entry.name, entry.kind) for entry in self.entries()]

    def entries(self) -> list[Entry]:
        """List this directory, sorted by name.

        Raises:
            UnreadablePath: it is no directory, or may not be listed.
        """
        from pyarrow.fs import FileSelector

        listing = known(self.source, self.path)
        if listing is not None and (listed := listing.entries(self.path)) is not None:
            return listed
        selector = FileSelector(self.path)
        infos = _ask(str(self), lambda: self.file_system().get_file_info(selector))
        entries = [_entry(info) for info in infos if info.base_name not in NO_NAMES]
        return sorted(entries, key=lambda entry: entry.name)

    def listing(self) -> Listing:
        """List this directory with all that is below it.

        Raises:
            UnreadablePath: it is no directory, or may not be listed.
        """
        from pyarrow.fs import FileSelector

        selector = FileSelector(self.path, recursive=True)
        infos = _ask(str(self), lambda: self.file_system().get_file_info(selector))
        return Listing(self.path, ((info.path, _entry(info)) for info in infos))

    def open(self) -> OpenFile:
        """Open a file for reading by ranges.

        Raises:
            UnreadablePath: missing, not permitted, or not a file.
        """
        file = _ask(str(self), lambda: self.file_system().open_input_file(self.path))
        return RemoteFile(self, file)

    def file_system(self) -> Any:  # noqa: ANN401 - a pyarrow.fs.FileSystem, which has no types
        """Give the opened file system; one a process."""
        return _opened(self.source)[0]

    def _at(self, path: str) -> Self:
        return type(self)(self.location[: self.start] + path, self.source, self.start)


class RemoteFile(OpenFile):
    """A file on a remote file system, read by ranges, ahead where it is read in turn."""

    __slots__ = ("_ahead", "_file")

    def __init__(self, place: Place, file: Any) -> None:  # noqa: ANN401 - a pyarrow.NativeFile
        OpenFile.__init__(self, place, -1, _ask(str(place), file.size))
        self._file = file
        # Start and bytes of what was read last, and how much to read next: one tuple, so that a
        # thread never sees the start of one read with the bytes of another.
        self._ahead: tuple[int, bytes, int] = (0, b"", SMALLEST_READ_BYTES)

    def close(self) -> None:
        """Close the file; twice does no harm."""
        self._ahead = (0, b"", SMALLEST_READ_BYTES)
        self._file.close()

    def fileno(self) -> int:
        """Refuse: there is no descriptor, so nobody can be asked about locks and holes.

        Raises:
            UnreadablePath: always.
        """
        raise UnreadablePath(path=str(self.place), reason="a remote file has no descriptor")

    def read_into(self, buffer: Buffer, position: int) -> int:
        """Fill a writable buffer from `position` on; return the bytes read.

        Raises:
            UnreadablePath: the file system refused.
        """
        view = memoryview(buffer).cast("B")
        data = self.read_at(position, len(view))
        view[: len(data)] = data
        return len(data)

    def next_data(self, position: int) -> int | None:
        """Give the position itself: nobody knows where zeros are."""
        return position

    def next_hole(self, position: int) -> int:  # noqa: ARG002 - there is not one
        """Give the size: there are no holes."""
        return self.size

    def _pread(self, length: int, position: int) -> bytes:
        start, data, ahead = self._ahead
        skip = position - start
        if 0 <= skip <= len(data) - length:
            return data[skip : skip + length]
        goes_on = bool(data) and 0 <= skip <= len(data)
        kept = data[skip:] if goes_on else b""
        ahead = min(2 * ahead, LARGEST_READ_BYTES) if goes_on else SMALLEST_READ_BYTES
        begin = position + len(kept)
        count = min(max(length - len(kept), ahead), self.size - begin)
        where = f"{self.place}: at {begin:#x} ({begin})"
        more = bytes(_ask(where, lambda: self._file.read_at(count, begin)))
        count_read(len(more))
        data = kept + more
        self._ahead = (position, data, max(ahead, min(count, LARGEST_READ_BYTES)))
        return data[:length]


def _opened(uri: str) -> tuple[Any, str]:
    """Give the file system that a URI names, and the path in it."""
    parts = urlsplit(uri)
    if parts.scheme.lower() != "s3":
        return _file_system(uri)
    # All stores of a bucket share one: a fleet has many paths, and each opening asks the server.
    file_system, bucket = _file_system(parts._replace(path="").geturl())
    return file_system, f"{bucket}{unquote(parts.path)}".rstrip("/")


@lru_cache(maxsize=FILE_SYSTEMS)
def _file_system(uri: str) -> tuple[Any, str]:
    from pyarrow.fs import FileSystem

    file_system, path = FileSystem.from_uri(uri)
    return file_system, path.rstrip("/")


def _ask(shown: str, question: Callable[[], Any]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Ask the file system; its refusal becomes an UnreadablePath."""
    try:
        return question()
    except (OSError, ValueError, NotImplementedError) as error:
        trouble = Trouble.of(error)
        refused = UnreadablePath(path=shown, reason=reason_of(error), trouble=trouble)
        if trouble is Trouble.MEDIUM:
            note_refused(refused)
        raise refused from error


def reason_of(error: Exception) -> str:
    """Give what a file system said in one line, without credentials."""
    lines = str(error).splitlines()
    return without_secrets(REQUEST_ID.sub("", lines[0])) if lines else "refused"


def _entry(info: Any) -> Entry:  # noqa: ANN401 - a pyarrow.fs.FileInfo
    kinds = {"File": EntryKind.FILE, "Directory": EntryKind.DIRECTORY}
    size = info.size or 0
    kind = kinds.get(info.type.name, EntryKind.OTHER)
    return Entry(info.base_name, kind, size, info.mtime_ns or 0, size)


def _local(uri: str, host: str, path: str) -> Place:
    if host not in {"", "localhost"} or not path.startswith("/"):
        reason = "a file: URI names an absolute path of this machine: file:///directory/store"
        raise UnreadablePath(path=printable(uri), reason=reason)
    return Place.of(path)


def _host(netloc: str) -> str:
    return netloc.rpartition("@")[2]


def without_secrets(text: str) -> str:
    """Drop what stands between `//` and `@`, and options, which may hold credentials, too."""
    return without_credentials(re.sub(r"(://[^?\s]*)\?\S*", r"\1", text))


def without_credentials(text: str) -> str:
    """Drop what stands between `//` and `@`."""
    return re.sub(r"://[^/@\s]*@", "://", text)
