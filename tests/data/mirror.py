"""A small web server whose every page can misbehave in its own way, and packed files for it."""

import contextlib
import gzip
import io
import re
import struct
import zipfile
from dataclasses import dataclass
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Event, Thread
from typing import Literal

from rda.data.catalogue import Dataset, File

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
CONTENT = Random(1705).randbytes(20_000)
CONTENTS = {IMAGES: CONTENT, LABELS: Random(8480).randbytes(300)}


def file_of(name: str, content: bytes, *urls: str) -> File:
    return File(name, len(content), sha256(content).hexdigest(), urls)


def tiny_dataset(*bases: str) -> Dataset:
    """Two small files under MNIST's names, as .gz on each of the mirrors."""
    files = (
        file_of(name, content, *(f"{base}{name}.gz" for base in bases))
        for name, content in CONTENTS.items()
    )
    return Dataset("tiny", "two small files", tuple(files))


def zipped(content: bytes, name: str = IMAGES, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", method) as members:
        members.writestr(name, content)
    return whole.getvalue()


def declaring(packed: bytes, size: int) -> bytes:
    """The same zip or gz, whose headers claim another unpacked size."""
    changed = bytearray(packed)
    if packed.startswith(b"\x1f\x8b"):
        struct.pack_into("<I", changed, len(changed) - 4, size)
        return bytes(changed)
    struct.pack_into("<I", changed, packed.index(b"PK\x03\x04") + 22, size)
    struct.pack_into("<I", changed, packed.index(b"PK\x01\x02") + 24, size)
    return bytes(changed)


PACKED = {"": CONTENT, ".gz": gzip.compress(CONTENT, mtime=0), ".zip": zipped(CONTENT)}

DRIPS, SECONDS_BETWEEN_DRIPS = 80, 0.05


@dataclass
class Page:
    """What the server answers at one path."""

    body: bytes
    status: int = 200
    reason: str | None = None
    knows_ranges: bool = True
    framing: Literal["length", "chunked", "none", "not even HTTP"] = "length"
    seconds_before: float = 0
    breaks_off_after: int | None = None
    stalls_then: bool = False
    continues_elsewhere: bool = False
    drips_in: Literal["", "status line", "headers", "chunk head", "trailers"] = ""


class Mirror:
    """The server, what it was asked for, and how many bytes it gave."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.bytes_sent = 0
        self.stop_stalling = Event()
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mirror.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/"

    def close(self) -> None:
        self.stop_stalling.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.asked.append((request.path, wanted))
        page = self.pages.get(request.path, Page(b"no such page", status=404))
        if page.drips_in:
            with contextlib.suppress(OSError):  # the client may have had enough
                self._drip(request, page)
            return
        self.stop_stalling.wait(page.seconds_before)
        start = 0
        if wanted and page.knows_ranges and page.status == 200:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
        if page.framing != "not even HTTP":
            _send_head(request, page, start)
        sent = page.body[start:][: page.breaks_off_after]
        if page.framing == "chunked":
            request.wfile.write(b"%x\r\n" % len(page.body[start:]))
        with contextlib.suppress(OSError):  # the client may have had enough
            request.wfile.write(sent)
            self.bytes_sent += len(sent)
            if page.framing == "chunked" and page.breaks_off_after is None:
                request.wfile.write(b"\r\n0\r\n\r\n")
        if page.stalls_then:
            self.stop_stalling.wait()

    def _drip(self, request: BaseHTTPRequestHandler, page: Page) -> None:
        """A whole answer in chunks; one part of it takes seconds, a few bytes at a time."""
        parts = {
            "status line": (b"HTTP/1.1 200 ", b"o"),
            "headers": (b"ok\r\n", b"X: x\r\n"),
            "chunk head": (b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
            "trailers": (b"%x\r\n%b\r\n0\r\n" % (len(page.body), page.body), b"X: x\r\n"),
        }
        for part, (sent, repeated) in parts.items():
            request.wfile.write(sent)
            for _ in range(DRIPS if part == page.drips_in else 0):
                if self.stop_stalling.wait(SECONDS_BETWEEN_DRIPS):
                    return
                request.wfile.write(repeated)
        request.wfile.write(b"\r\n")


def _send_head(request: BaseHTTPRequestHandler, page: Page, start: int) -> None:
    whole = len(page.body)
    if start and start >= whole:
        request.send_response(416)
    elif start:
        request.send_response(206)
        first = start + page.continues_elsewhere
        request.send_header("Content-Range", f"bytes {first}-{whole - 1}/{whole}")
    else:
        request.send_response(page.status, page.reason)
    if page.framing == "length":
        request.send_header("Content-Length", str(max(whole - start, 0)))
    elif page.framing == "chunked":
        request.send_header("Transfer-Encoding", "chunked")
    request.end_headers()
