"""A hub on loopback: repositories, large files behind a redirect, ranges, and many faults."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)(/revision/(?P<revision>.+))?")
FILE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
PIECE = 64 << 10


@dataclass
class File:
    data: bytes
    large: bool = True
    said: bytes | None = None  # what is sent in its place
    size: int | None = None  # what is claimed

    @property
    def sum(self) -> str:
        if self.large:
            return hashlib.sha256(self.data).hexdigest()
        return hashlib.sha1(f"blob {len(self.data)}\0".encode() + self.data).hexdigest()


@dataclass
class Faults:
    """The faults of a hub, by a word in the path."""

    status: dict[str, list[int]] = field(default_factory=dict)  # one answer after the other
    cut_after: int | None = None  # bytes, once
    pause: float = 0.0  # seconds between pieces
    ranges: bool = True


class FakeHub:
    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, File]] = {}
        self.private: dict[str, str] = {}  # tokens
        self.gated: set[str] = set()
        self.faults = Faults()
        self.sent = 0  # bytes of large files
        self.spans: list[tuple[int, int]] = []  # of large files, as they were asked for
        self.lock = threading.Lock()
        hub = self

        class Handler(Answers):
            owner = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def store(self) -> str:
        """Serve large files from another host, as real hubs do."""
        return f"http://localhost:{self._server.server_port}"

    def put(self, repository: str, name: str, data: bytes, **about: object) -> File:
        file = File(data, **about)  # type: ignore[arg-type]
        self.repositories.setdefault(repository, {})[name] = file
        return file

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Answers(BaseHTTPRequestHandler):
    owner: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        for word, answers in self.owner.faults.status.items():
            if word in path and answers:
                status = answers.pop(0)
                if status:
                    return self._refuse(status, "RepoNotFound" if status == 401 else "")
        if found := MODEL.fullmatch(path):
            return self._model(found["repo"])
        if path.startswith("/cdn/"):
            return self._content(path.removeprefix("/cdn/"), body)
        if found := FILE.fullmatch(path):
            return self._file(found["repo"], found["file"], body)
        return self._refuse(404, "EntryNotFound")

    def _allowed(self, repository: str) -> bool:
        owner, token = self.owner, self.headers.get("Authorization", "")
        if repository not in owner.repositories:
            self._refuse(401, "RepoNotFound")
        elif repository in owner.gated:
            self._refuse(403, "GatedRepo")
        elif repository in owner.private and token != f"Bearer {owner.private[repository]}":
            self._refuse(401, "RepoNotFound")
        else:
            return True
        return False

    def _model(self, repository: str) -> None:
        if not self._allowed(repository):
            return
        siblings = []
        for name, file in self.owner.repositories[repository].items():
            size = len(file.data) if file.size is None else file.size
            entry: dict[str, object] = {"rfilename": name, "size": size, "blobId": file.sum}
            if file.large:
                entry["lfs"] = {"size": size, "sha256": file.sum, "pointerSize": 130}
            siblings.append(entry)
        fields = {"id": repository, "sha": COMMIT, "siblings": siblings}
        self._send(200, json.dumps(fields).encode())

    def _file(self, repository: str, name: str, body: bool) -> None:
        if not self._allowed(repository):
            return None
        file = self.owner.repositories[repository].get(name)
        if file is None:
            return self._refuse(404, "EntryNotFound")
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{file.sum}"', "Accept-Ranges": "bytes"}
        if not file.large:
            return self._send(200, file.data if body else b"", headers, len(file.data))
        headers |= {
            "X-Linked-Etag": f'"{file.sum}"',
            "X-Linked-Size": str(len(file.data)),
            "Location": f"{self.owner.store}/cdn/{repository}/{name}",
        }
        return self._send(302, b"", headers)

    def _content(self, path: str, body: bool) -> None:
        owner = self.owner
        organisation, name, file_name = path.split("/", 2)
        file = owner.repositories[f"{organisation}/{name}"][file_name]
        data = file.data if file.said is None else file.said
        begin = 0
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        end = len(data)
        if asked and owner.faults.ranges:
            begin = int(asked[1])
            end = min(end, int(asked[2]) + 1) if asked[2] else end
        status = 206 if asked and owner.faults.ranges else 200
        if begin > len(data):
            return self._refuse(416, "")
        with owner.lock:
            owner.spans.append((begin, end))
        self.send_response(status)
        self.send_header("Content-Length", str(end - begin))
        self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(data)}")
        self.end_headers()
        for at in range(begin, end, PIECE):
            if owner.faults.cut_after is not None and owner.sent >= owner.faults.cut_after:
                owner.faults.cut_after = None
                self.close_connection = True
                self.connection.close()
                return None
            piece = data[at : min(at + PIECE, end)]
            try:
                self.wfile.write(piece)
            except OSError:
                return None
            with owner.lock:
                owner.sent += len(piece)
            if owner.faults.pause:
                time.sleep(owner.faults.pause)
        return None

    def _refuse(self, status: int, code: str) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": code, "Retry-After": "0"}
        self._send(status, b"{}", headers)

    def _send(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, size: int = -1
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if size < 0 else size))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
