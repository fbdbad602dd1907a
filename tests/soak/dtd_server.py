from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from broker.dtd.catalogue import shipped_folder


class DtdServer:
    """`/soak-1.N.dtd` is the flight DTD with another name."""

    def __init__(self) -> None:
        flights = (shipped_folder() / "flight-1.0.dtd").read_text()
        text = re.sub(r"\bflight\b", "soak", flights)

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = re.fullmatch(r"/soak-(1\.\d+)\.dtd", self.path)
                page = text.replace("1.0", found[1], 1).encode() if found else b""
                self.send_response(200 if found else 404)
                self.send_header("content-length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_: Any) -> None:
                """Suppress the log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,))
        self.port = self._server.server_address[1]

    def __enter__(self) -> DtdServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
