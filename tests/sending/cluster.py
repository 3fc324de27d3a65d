"""A name server and a broker of our own, in threads: they answer as a test wants them to."""

from __future__ import annotations

import json
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

GET_ROUTE: Final = 105
SEND: Final = 310
SILENCE: Final = b"silence"
Header = Mapping[str, str]
Sent = tuple[Header, bytes]


@dataclass
class Cluster:
    """What the servers know.

    Attributes:
        address: of both of them.
        topics: topic to the number of its queues.
        perm: of all queues.
        sent: header and body of what was taken.
        raw: what any request is answered with, before the connection ends.
        answers: to requests with a code, instead of the usual ones.
        answer: gives the answer to the message with a number, from 0 on, instead of the usual one:
            a code, bytes to send as they are, `SILENCE`, or b"" to close the connection.
    """

    address: str = ""
    topics: dict[str, int] = field(default_factory=lambda: {"orders": 4})
    perm: int = 6
    sent: list[Sent] = field(default_factory=list)
    answer: Callable[[int], int | bytes | None] = lambda _: None
    route: bytes = b""
    answers: dict[int, tuple[int, Header, bytes]] = field(default_factory=dict)
    tried: int = 0
    raw: bytes = b""

    def route_of(self, topic: str) -> bytes:
        """Give a route, as 4.9.3 writes it: names that are numbers have no quotes."""
        if self.route:
            return self.route
        queues = {"perm": self.perm, "readQueueNums": 4, "writeQueueNums": self.topics[topic]}
        found = {
            "brokerDatas": [{"brokerName": "a", "cluster": "c", "brokerAddrs": "ADDRESSES"}],
            "queueDatas": [{"brokerName": "a", **queues}],
        }
        addresses = b'{0:"%b",1:"10.9.9.9:1"}' % self.address.encode()
        return json.dumps(found).encode().replace(b'"ADDRESSES"', addresses)

    def answered(self, head: dict[str, Any], body: bytes) -> bytes:
        """Give what is sent back for a request."""
        fields = head["extFields"]
        if head["code"] in self.answers:
            return frame(head, *self.answers[head["code"]])
        if head["code"] == GET_ROUTE:
            is_there = fields["topic"] in self.topics
            route = self.route_of(fields["topic"]) if is_there else b""
            return frame(head, 0 if is_there else 17, {}, route)
        wanted = self.answer(self.tried)
        self.tried += 1
        if isinstance(wanted, bytes):
            return wanted
        if not wanted or 10 <= wanted <= 12:
            self.sent.append((fields, body))
            place = {"msgId": f"ID{len(self.sent):04}", "queueOffset": "7", "queueId": fields["e"]}
            return frame(head, wanted or 0, place)
        return frame(head, wanted, {})


def frame(head: Mapping[str, Any], code: int, fields: Header, body: bytes = b"") -> bytes:
    """Give an answer to a request."""
    answer = {"code": code, "flag": 1, "opaque": head["opaque"], "extFields": fields}
    raw = json.dumps(answer | {"remark": f"the reason of {code}"}).encode()
    return struct.pack(">ii", 4 + len(raw) + len(body), len(raw)) + raw + body


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Run both servers on one port of the loopback address."""
    cluster = Cluster()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while head := self.rfile.read(8):
                if cluster.raw:
                    self.wfile.write(cluster.raw)
                    return
                length, header_length = struct.unpack(">ii", head)
                raw = self.rfile.read(length - 4)
                request = json.loads(raw[:header_length])
                answer = cluster.answered(request, raw[header_length:])
                if not answer:
                    return
                if answer != SILENCE:
                    self.wfile.write(answer)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        cluster.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield cluster
        server.shutdown()
        thread.join()
