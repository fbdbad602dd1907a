from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs
import pytest

from tests.system.node_process import NodeProcess

#: In seconds.
HANDSHAKE = 2.0


@attrs.define
class DtdServer:
    """A web server with counted requests and `pages` by path."""

    port: int
    pages: dict[str, bytes] = attrs.field(factory=dict)
    requests: Counter[str] = attrs.field(factory=Counter)


@pytest.fixture(scope="session")
def dtd_server() -> Iterator[DtdServer]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests[self.path] += 1
            page = served.pages.get(self.path)
            self.send_response(404 if page is None else 200)
            self.send_header("content-length", str(len(page or b"")))
            self.end_headers()
            self.wfile.write(page or b"")

        def log_message(self, *_: Any) -> None:
            """Suppress the log; requests are counted."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        served = DtdServer(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield served
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def shared_node(
    tmp_path_factory: pytest.TempPathFactory, dtd_server: DtdServer
) -> Iterator[NodeProcess]:
    """A node with a short handshake timeout that fetches DTDs only below one path.

    Afterwards its log must have no traceback.
    """
    configuration = (
        f"[limits]\nhandshake_timeout = {HANDSHAKE}\n"
        f'[types]\npointers = ["http://127.0.0.1:{dtd_server.port}/allowed/"]\n'
    )
    with NodeProcess(tmp_path_factory.mktemp("shared-node"), configuration) as node:
        yield node
        assert node.process.poll() is None
        node.stop()
        assert "has stopped in good order" in node.log()
        assert "Traceback" not in node.log()
        assert "Unhandled" not in node.log()
