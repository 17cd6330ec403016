"""A server that says what it is told to, with llama-server's options; run as a program of its own.

A prompt with DIE ends the process, with REFUSE is refused, with BREAK breaks off in mid-reply, and
with FAULT gets an error event. All others are answered with their last words, one a piece. With
drafts, a reply to PART ends in another word, which is nearly as likely as the right one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PIECE_SECONDS = 0.004
CACHED, PROMPT = 3, 12  # tokens
OTHER, LEAD = "otherwise", 0.125
DRAFTED = {"draft_n": 6, "draft_n_accepted": 3}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: set[int] = set()  # noqa: RUF012  # tokens, which a text may go on with

    def log_message(self, *words):
        pass

    def do_GET(self):
        self.respond(200, b"{}")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        readings = {
            "/apply-template": self.template,
            "/tokenize": self.tokens,
            "/completion": self.next_token,
        }
        if self.path in readings:
            self.respond(200, json.dumps(readings[self.path](body)).encode())
        else:
            self.chat(body)

    def template(self, body):
        return {"prompt": body["messages"][0]["content"]}

    def tokens(self, body):
        tokens = [token_of(word) for word in body["content"].split()]
        self.seen.update(tokens)
        return {"tokens": tokens}

    def next_token(self, body):
        other = token_of(OTHER)
        likeliest = [{"id": at, "logprob": -LEAD if at == other else 0.0} for at in self.seen]
        return {"completion_probabilities": [{"top_logprobs": likeliest}]}

    def chat(self, body):
        question = body["messages"][-1]["content"]
        if "DIE" in question:
            print("the disk is on fire", flush=True)
            os._exit(3)
        if "REFUSE" in question:
            self.respond(400, b"no such field")
            return
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        words = question.split()[-4:][: body["max_tokens"]]
        if "PART" in question and self.server.drafts:
            words[-1] = OTHER
        for word in words:
            time.sleep(PIECE_SECONDS)
            self.send({"choices": [{"delta": {"content": f"{word} "}}]})
        if "FAULT" in question:
            self.send({"error": {"message": "out of memory"}})
        if "BREAK" not in question:
            self.send(self.usage(len(words)))
        self.close_connection = True

    def usage(self, tokens):
        fields = {"prompt_tokens_details": {"cached_tokens": CACHED}}
        fields |= {"prompt_tokens": PROMPT, "completion_tokens": tokens}
        timings = {"timings": DRAFTED} if self.server.drafts else {}
        return {"choices": [], "usage": fields, **timings}

    def send(self, event):
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()

    def respond(self, status, data):
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def token_of(word):
    return zlib.crc32(word.encode()) >> 1  # tokens have 31 bits


def main():
    if "--version" in sys.argv:
        print("version: 7 (scripted)")
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    options, _ = parser.parse_known_args()
    print(f"process {os.getpid()}", flush=True)
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.drafts = "--spec-type" in sys.argv
    server.serve_forever()


if __name__ == "__main__":
    main()
