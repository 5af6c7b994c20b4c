"""The explorer's server, which answers its own page on this machine and refuses everything else.

It listens on 127.0.0.1 only. Its addresses contain a random token, which other users of the machine cannot guess. It checks
the headers Host and Origin, so pages of other sites cannot use it even if they know the token. It reads its files once, at
the start: no request can name a path on the disk. Bodies are JSON of bounded size, and one request computes at a time.
"""

import contextlib
import json
import os
import secrets
import socket
import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from .page import live_files, live_page, to_json
from .wording import sentence

HOST = "127.0.0.1"
NAMES = {HOST, "localhost"}                     # of this machine, as the browser calls it
LARGEST_BODY = 256 * 1024
LONGEST_NUMBER = 20                             # digits: Python refuses to read numbers of more than 4,300
PATIENCE = 60                                   # seconds that a request waits for another's computation
SECURITY = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
            "X-Frame-Options": "DENY"}
NOTHING_ALLOWED = "default-src 'none'; frame-ancestors 'none'"


class Refused(Exception):
    """A request that is answered with an error: the HTTP status and one sentence."""

    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status = status


class PageServer(ThreadingHTTPServer):
    """Serves the page of a session: `PageServer(session).serve_forever()`; `address` is the page's.

    Parameters:
        session : Session, whose methods document, array, spell and nudge answer the requests of the same names
        port : int, or 0 for a free one
        title : str, the title of the page until its document has arrived
    """

    daemon_threads = True
    allow_reuse_address = os.name == "posix"    # elsewhere, it would let two servers share a port

    def __init__(self, session, port=0, title="Explorer"):
        self.session = session
        self.token = secrets.token_urlsafe(16)
        self.computing = threading.Lock()
        html, self.policy = live_page(title)
        self.files = {"": ("text/html; charset=utf-8", html.encode()), **live_files()}
        try:
            super().__init__((HOST, port), Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(sentence("errors.server.port", port=port, host=HOST, reason=reason)) from error

    def server_bind(self):
        socketserver.TCPServer.server_bind(self)            # HTTPServer's own asks the network for this machine's name
        self.server_name, self.server_port = self.server_address[:2]

    @property
    def address(self):
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):         # the browser has gone away
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers one connection. Every error is JSON: {"error": "one sentence"}."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "numpy-transformer", ""
    timeout = 60                                # seconds until a silent connection is closed

    def do_GET(self):
        self.answer(self.find_file)

    def do_POST(self):
        self.answer(self.compute)

    def answer(self, find):
        try:
            address = self.check_request()
            kind, body = find(address)
        except Refused as refused:
            self.send_error(refused.status, str(refused))
            return
        self.send(200, kind, body, self.server.policy if kind.startswith("text/html") else NOTHING_ALLOWED)

    def check_request(self):
        """Returns the address after the token. Raises Refused for requests that do not come from the page."""
        host = self.headers.get("Host", "")
        if host_name(host) not in NAMES:
            raise Refused(403, sentence("errors.server.host", host=HOST))
        origin = self.headers.get("Origin")
        is_own = self.headers.get("Sec-Fetch-Site", "same-origin") in ("same-origin", "none")
        is_link = self.command == "GET" and self.headers.get("Sec-Fetch-Mode") == "navigate"      # from a web terminal, say
        if origin not in (None, f"http://{host}") or not (is_own or is_link):
            raise Refused(403, sentence("errors.server.origin"))
        try:
            path = urlsplit(self.path).path
        except ValueError:                      # an address such as http://[/
            raise Refused(400, sentence("errors.server.address")) from None
        token, slash, address = path.removeprefix("/").partition("/")
        if not slash or not secrets.compare_digest(token.encode(), self.server.token.encode()):
            raise Refused(403, sentence("errors.server.token"))
        return address

    def find_file(self, address):
        if address.startswith("api/"):
            raise Refused(405, sentence("errors.server.post"))
        if address not in self.server.files:
            raise Refused(404, sentence("errors.server.file"))
        return self.server.files[address]

    def compute(self, address):
        names = {"api/document": ("edits",), "api/array": ("document", "ref", "index"),
                 "api/spell": ("document", "ref", "index"), "api/nudge": ("document", "value", "index", "number")}
        if address not in names:
            raise Refused(405, sentence("errors.server.only_post", names=', '.join(names)))
        question = self.read_json()
        unknown = set(question) - set(names[address])
        if unknown:
            raise Refused(400, sentence("errors.server.unknown", address=address,
                                     unknown=', '.join(map(repr, sorted(unknown))), names=', '.join(names[address])))
        compute = getattr(self.server.session, address.removeprefix("api/"))
        if not self.server.computing.acquire(timeout=PATIENCE):
            raise Refused(503, sentence("errors.server.busy", seconds=PATIENCE))
        try:
            return "application/json", to_json(compute(**question)).encode()
        except MemoryError:
            raise Refused(507, sentence("errors.server.memory")) from None
        except ValueError as error:             # a sentence for the reader
            raise Refused(400, one_line(error)) from error
        except Exception as error:
            missing = [name for name in names[address] if name not in question]
            if isinstance(error, TypeError) and missing and "missing" in str(error):
                raise Refused(400, sentence("errors.server.missing", address=address, names=', '.join(missing))) from None
            raise Refused(500, sentence("errors.server.computed", type=type(error).__name__, error=one_line(error))) from error
        finally:
            self.server.computing.release()

    def read_json(self):
        """Returns the object in the body. Raises Refused for a body that is too large or is not a JSON object."""
        if self.headers.get_content_type() != "application/json":
            raise Refused(415, sentence("errors.server.type"))
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or "Transfer-Encoding" in self.headers:
            raise Refused(411, sentence("errors.server.length"))
        if len(length) > LONGEST_NUMBER or int(length) > LARGEST_BODY:
            raise Refused(413, sentence("errors.server.bytes", most=LARGEST_BODY))
        try:
            question = json.loads(self.rfile.read(int(length)), parse_constant=refuse_constant)
        except (ValueError, RecursionError) as error:
            raise Refused(400, sentence("errors.server.json", error=one_line(error))) from error
        if not isinstance(question, dict):
            raise Refused(400, sentence("errors.server.object"))
        return question

    def send_error(self, code, message=None, explain=None):
        body = to_json({"error": message or self.responses.get(code, ("", ""))[0]}).encode()
        self.close_connection = True            # part of the request may not have been read
        self.send(code, "application/json", body, NOTHING_ALLOWED)
        if self.command == "POST":
            self.drain()

    def drain(self):
        """Reads what is still being sent: to close now would reset the connection, and the browser would lose the answer."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1)
            left = 16 * LARGEST_BODY
            while left > 0:
                piece = self.rfile.read1(65536)
                if not piece:
                    break
                left -= len(piece)

    def send(self, status, kind, body, policy):
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Content-Security-Policy": policy, **SECURITY}
        if self.close_connection:
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        """Logs nothing: the addresses contain the token."""


def host_name(host):
    """Returns the name in a Host header, without the port."""
    return host.rpartition(":")[0] if ":" in host else host


def refuse_constant(name):
    raise ValueError(sentence("errors.server.number", name=name))


def one_line(error):
    """Returns the text of an error as one line."""
    return " ".join(str(error).split()) or type(error).__name__
