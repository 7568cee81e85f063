"""A load generator that costs little: prepared bytes over keep-alive sockets, one thread, epoll. A process of its own, so
that it takes no time of the measured one.

    python -m ops.bench.http_load PORT TOKEN --calls N --size N --connections N --first N

posts N calls of `size` requests each to the enqueue route, each for documents of its own from `first` on, and reports
`@took <requests> <ns>`. Anything but a 202 ends it.
"""

from __future__ import annotations

import argparse
import json
import selectors
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from ops.bench.peers.driver import report

PATH = "/internal/knowledge_base_sync/enqueue"
SILENT_S = 30.0


def call(token: str, first: int, size: int) -> bytes:
    """One HTTP request for `size` documents from `first` on."""
    asked = [{"type": "sync_document", "organization_id": 1, "document_id": first + n} for n in range(size)]
    body = json.dumps({"requests": asked}).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass
class Line:
    """A connection with one call on its way."""

    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)

    def answered(self) -> bool:
        """Whether the whole answer is there; then it is taken. Raises RuntimeError for another status than 202."""
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(self.received[:end])
        length = next(
            int(one.split(b":")[1]) for one in head.split(b"\r\n") if one.lower().startswith(b"content-length:")
        )
        if len(self.received) < end + 4 + length:
            return False
        if not head.startswith(b"HTTP/1.1 202"):
            raise RuntimeError(f"{head.splitlines()[0].decode()}: {bytes(self.received[end + 4 :])[:300]!r}")
        self.received.clear()
        return True


def run(port: int, calls: list[bytes], connections: int) -> int:
    """Sends all calls, one after the other on each connection. Answers the ns from the first byte to the last answer."""
    waiting: Iterator[bytes] = iter(calls)
    lines = selectors.DefaultSelector()
    open_lines = [Line(socket.create_connection(("127.0.0.1", port))) for _ in range(min(connections, len(calls)))]
    for line in open_lines:
        line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines.register(line.socket, selectors.EVENT_READ, line)
    begun, left = time.monotonic_ns(), len(calls)
    for line in open_lines:
        line.socket.sendall(next(waiting))
    while left:
        ready = lines.select(SILENT_S)
        if not ready:
            raise RuntimeError(f"no answer for {SILENT_S:.0f} s")
        for key, _ in ready:
            line = key.data
            got = line.socket.recv(1 << 20)
            if not got:
                raise RuntimeError("the API closed a connection")
            line.received += got
            if line.answered():
                left -= 1
                if (following := next(waiting, None)) is not None:
                    line.socket.sendall(following)
    took = time.monotonic_ns() - begun
    for line in open_lines:
        line.socket.close()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("token")
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--first", type=int, required=True)
    wanted = parser.parse_args()
    calls = [call(wanted.token, wanted.first + n * wanted.size, wanted.size) for n in range(wanted.calls)]
    report("took", wanted.calls * wanted.size, run(wanted.port, calls, wanted.connections))


if __name__ == "__main__":
    main()
