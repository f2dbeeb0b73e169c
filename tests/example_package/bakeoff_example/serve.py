# SPDX-License-Identifier: Apache-2.0
"""The example's server: serve.py PORT NAME LENGTH. It answers with the first words of a list, one an event."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PORT, NAME, LENGTH = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        model = {"id": NAME, "version": "1.0", "max_model_len": LENGTH}
        self.whole(json.dumps({"data": [model]}) if self.path == "/v1/models" else "")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        count = asked["max_tokens"]
        events = [event(" the", "length" if number == count else None) for number in range(1, count + 1)]
        usage = {"prompt_tokens": len(asked["prompt"].split()), "completion_tokens": count}
        self.whole("".join([*events, f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n", "data: [DONE]\n\n"]))

    def whole(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *words: Any) -> None:
        pass


def event(text: str, reason: str | None) -> str:
    return f"data: {json.dumps({'choices': [{'text': text, 'finish_reason': reason}]})}\n\n"


ThreadingHTTPServer(("127.0.0.1", PORT), Answers).serve_forever()
