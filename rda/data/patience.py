"""Answers of web servers that are waited for with a limit, whatever comes in meanwhile.

The timeout of a socket ends a silence. A server that sends a byte now and then, as headers or as
the head of a chunk, is never silent and never done.
"""

import io
import urllib.request
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from time import monotonic
from typing import Any

SECONDS_WITHOUT_PROGRESS = 60.0
"""The headers as a whole, and each piece of the body, are waited for no longer than this."""


class MirrorError(Exception):
    """One mirror does not deliver the file; the message is the reason."""


class _Limited(io.RawIOBase):
    """What comes in from a socket, until the time is over that was left at the last `begin`."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw
        self.begin()

    def begin(self) -> None:
        self._end = monotonic() + SECONDS_WITHOUT_PROGRESS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if monotonic() >= self._end:
            raise MirrorError(f"made no progress in {SECONDS_WITHOUT_PROGRESS:g} seconds")
        received: int | None = self._raw.readinto(buffer)
        return received

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(HTTPResponse):
    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._limited = _Limited(self.fp.detach())
        self.fp = io.BufferedReader(self._limited)

    def read1(self, size: int = -1) -> bytes:
        self._limited.begin()
        return super().read1(size)


class _Connection(HTTPConnection):
    response_class = _Response


class _SecureConnection(HTTPSConnection):
    response_class = _Response


class _Handler(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_Connection, request)


class _SecureHandler(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_SecureConnection, request)


def open_url(request: urllib.request.Request, timeout: float) -> HTTPResponse:
    """As urllib.request.urlopen, with a limit to each wait."""
    response: HTTPResponse = urllib.request.build_opener(_Handler, _SecureHandler).open(
        request, timeout=timeout
    )
    return response
