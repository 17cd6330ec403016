"""A server that says what it is told to, with llama-server's options; run as a program of its own.

A prompt with DIE ends the process, with REFUSE is refused, with BREAK breaks off in mid-reply, and
with FAULT gets an error event. All others are answered with their last words, one a piece.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PIECE_SECONDS = 0.004
CACHED, PROMPT = 3, 12  # tokens


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_GET(self):
        self.respond(200, b"{}")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = body["messages"][0]["content"]
        if "DIE" in said:
            print("the disk is on fire", flush=True)
            os._exit(3)
        if "REFUSE" in said:
            self.respond(400, b"no such field")
            return
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        words = said.split()[-4:][: body["max_tokens"]]
        for word in words:
            time.sleep(PIECE_SECONDS)
            self.send({"choices": [{"delta": {"content": f"{word} "}}]})
        if "FAULT" in said:
            self.send({"error": {"message": "out of memory"}})
        if "BREAK" not in said:
            told = {"prompt_tokens_details": {"cached_tokens": CACHED}}
            told |= {"prompt_tokens": PROMPT, "completion_tokens": len(words)}
            self.send({"choices": [], "usage": told})
        self.close_connection = True

    def send(self, event):
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()

    def respond(self, status, data):
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main():
    if "--version" in sys.argv:
        print("version: 7 (scripted)")
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    found, _ = parser.parse_known_args()
    print(f"process {os.getpid()}", flush=True)
    server = ThreadingHTTPServer(("127.0.0.1", found.port), Handler)
    server.serve_forever()


if __name__ == "__main__":
    main()
