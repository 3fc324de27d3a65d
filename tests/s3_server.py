"""A real S3 server on loopback (moto's), which writes down what is asked of it."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from pyarrow.fs import FileSystem

BUCKET = "evidence"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Request(NamedTuple):
    """One request, and the length of the answer's body."""

    method: str
    path: str
    range: str
    length: int


class S3Server:
    """The server, and what it was asked.

    Attributes:
        requests: all of them, in order.
        endpoint: `http://127.0.0.1:PORT`.
    """

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
        self.requests: list[Request] = []
        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._count, threaded=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        atexit.register(self._server.shutdown)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to use the server as if it were Amazon's."""
        return {**ENVIRONMENT, "AWS_ENDPOINT_URL": self.endpoint}

    def options(self) -> str:
        """The same as options of a URI."""
        host = self.endpoint.removeprefix("http://")
        return f"?scheme=http&endpoint_override={quote(host)}&region=us-east-1"

    def put(self, source: Path, prefix: str) -> str:
        """Upload a tree below a prefix of the bucket; return its URI."""
        file_system, _ = FileSystem.from_uri(f"s3://{BUCKET}?allow_bucket_creation=true")
        file_system.create_dir(BUCKET)
        for path in sorted(source.rglob("*")):
            target = f"{BUCKET}/{prefix}/{path.relative_to(source)}"
            if path.is_file():
                with file_system.open_output_stream(target) as stream:
                    stream.write(path.read_bytes())
        return f"s3://{BUCKET}/{prefix}"

    def fetched(self, name: str) -> int:
        """Count the bytes that were sent of objects whose key ends with a name."""
        return sum(
            request.length
            for request in self.requests
            if request.method == "GET" and request.path.endswith(name)
        )

    def _count(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = list(self._application(environ, start))
        length = sum(map(len, body)) if environ["REQUEST_METHOD"] == "GET" else 0
        asked = environ.get("HTTP_RANGE", "")
        request = Request(environ["REQUEST_METHOD"], environ["PATH_INFO"], asked, length)
        self.requests.append(request)
        return body


@cache
def s3_server() -> S3Server:
    """Start the server of this process, once; from now on `s3://` means it."""
    server = S3Server()
    os.environ.update(server.environment)
    return server


def in_bucket(path: str) -> str:
    """Give a URI that opens in any process, as executors know nothing of our environment."""
    key, secret = ENVIRONMENT["AWS_ACCESS_KEY_ID"], ENVIRONMENT["AWS_SECRET_ACCESS_KEY"]
    return f"s3://{key}:{secret}@{BUCKET}/{path}{s3_server().options()}"
