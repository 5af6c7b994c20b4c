"""The explorer's server answers its own page and refuses everything else with one sentence."""

import contextlib
import http.client
import json
import socket
import threading
import time

import numpy as np
import pytest
from helpers.mutations import mutate_bytes, pick

from numpy_transformer.explorer.server import LARGEST_BODY, PageServer


class Answers:
    """Stands for a session: it answers at once, and says which calls overlapped."""

    def __init__(self):
        self.active, self.most_active = 0, 0

    def document(self, edits):
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        time.sleep(0.02)
        self.active -= 1
        return {"edits": edits, "loss": float("nan")}

    def array(self, document, ref, index=None):
        if ref == "broken":
            raise RuntimeError("not meant\nto happen")
        if ref == "missing":
            return {}["y"]
        if ref == "large":
            raise MemoryError
        raise ValueError(f"this step has no array {ref!r}")

    spell = nudge = array


@pytest.fixture(scope="module")
def server():
    with PageServer(Answers()) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, path="", body=None, method=None, headers=(), token=None):
    """(status, headers, text) of one request, which is the page's own unless something else is given."""
    token = server.token if token is None else token
    own = {"Host": f"127.0.0.1:{server.server_port}"}
    if body is not None:
        own |= {"Content-Type": "application/json", "Origin": f"http://127.0.0.1:{server.server_port}"}
        body = body if isinstance(body, (str, bytes)) else json.dumps(body)
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    sent = {name: value for name, value in (own | dict(headers)).items() if value is not None}
    connection.putrequest(method or ("GET" if body is None else "POST"), f"/{token}/{path}" if token else f"/{path}",
                          skip_host=True, skip_accept_encoding=True)
    if body is not None and "Content-Length" not in sent:
        sent["Content-Length"] = len(body)
    for name, value in sent.items():
        connection.putheader(name, value)
    connection.endheaders(body.encode() if isinstance(body, str) else body)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, response.headers, text


def error(answer, status):
    """The sentence of an answer that must be an error with this status."""
    assert answer[0] == status, answer
    assert answer[1]["Content-Type"] == "application/json"
    sentence = json.loads(answer[2])["error"]
    assert sentence and "\n" not in sentence and "Traceback" not in sentence
    return sentence


def test_the_page_and_its_modules_are_sent_with_security_headers(server):
    status, headers, text = ask(server)
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    assert text.startswith("<!doctype html>") and '"explorer/main": "./main.js"' in text
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"] and "connect-src 'self'" in headers["Content-Security-Policy"]
    assert "unsafe-inline" not in headers["Content-Security-Policy"].split("style-src")[0]
    for name, value in {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}.items():
        assert headers[name] == value
    for name in ("main.js", "style.css"):
        status, headers, text = ask(server, name)
        assert status == 200 and len(text) > 100 and headers["X-Content-Type-Options"] == "nosniff"


def test_a_question_is_answered_in_json_without_nan(server):
    status, headers, text = ask(server, "api/document", {"edits": [{"kind": "text"}]})
    assert status == 200 and headers["Content-Type"] == "application/json"
    assert json.loads(text) == {"edits": [{"kind": "text"}], "loss": None}


def test_one_question_is_computed_at_a_time(server):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(ask(server, "api/document", {"edits": []})[0]))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 4 and server.session.most_active == 1


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::1]", "", None])
def test_another_host_is_refused(server, host):
    for body in (None, {"edits": []}):
        assert "answers only as 127.0.0.1" in error(ask(server, body=body, headers={"Host": host}), 403)


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
                                     {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}])
def test_pages_of_other_sites_are_refused(server, headers):
    assert "other sites" in error(ask(server, "api/document", {"edits": []}, headers=headers), 403)
    assert "other sites" in error(ask(server, "main.js", headers=headers), 403)


def test_a_link_from_another_page_opens_the_page_but_cannot_compute(server):
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert ask(server, headers=link)[0] == 200
    assert "token" in error(ask(server, headers=link, token="wrong"), 403)
    error(ask(server, "api/document", {"edits": []}, headers=link), 403)


@pytest.mark.parametrize("token", ["", "wrong", "0" * 22, "%00", "%C3%A9"])
def test_a_missing_or_wrong_token_is_refused(server, token):
    assert "token" in error(ask(server, "api/document", {"edits": []}, token=token), 403)
    assert "token" in error(ask(server, "main.js", token=token), 403)


@pytest.mark.parametrize("path", ["../server.py", "%2e%2e/server.py", "..%2fserver.py", "/etc/passwd", "page/../../module.py",
                                  "index.html/", "main.js%00", "\\..\\server.py", "file:///etc/passwd"])
def test_no_path_leads_to_a_file_on_the_disk(server, path):
    assert error(ask(server, path), 404) == "there is no such file"


@pytest.mark.parametrize("body, status, match", [
    ("{", 400, "not valid JSON"), ("[" * 100_000, 400, "not valid JSON"), ("\xff", 400, "not valid JSON"), ("", 400, "not valid JSON"),
    ('{"edits": NaN}', 400, "NaN is not a JSON number"), ("[]", 400, "must be a JSON object"), ("null", 400, "must be a JSON object"),
    ({}, 400, "needs edits"), ({"edits": [], "path": "/etc"}, 400, "does not know 'path'")])
def test_a_bad_body_is_refused(server, body, status, match):
    body = body.encode("latin-1") if isinstance(body, str) else body
    assert match in error(ask(server, "api/document", body), status)


def test_errors_of_the_computation_are_one_sentence(server):
    question = {"document": "step-0", "index": [0]}
    assert error(ask(server, "api/array", question | {"ref": "x"}), 400) == "this step has no array 'x'"
    assert "not enough memory" in error(ask(server, "api/spell", question | {"ref": "large"}), 507)
    for ref, text in (("broken", "RuntimeError: not meant to happen"), ("missing", "KeyError: 'y'")):
        assert error(ask(server, "api/array", question | {"ref": ref}), 500) == \
            f"this could not be computed ({text}); undo the latest change"
    assert "needs document, ref" in error(ask(server, "api/array", {"index": []}), 400)


def test_an_oversized_body_is_refused_before_it_is_computed(server):
    for size in (LARGEST_BODY + 1, 20 * LARGEST_BODY):
        answer = ask(server, "api/document", b"x", headers={"Content-Length": size})
        assert f"more than the {LARGEST_BODY:,} bytes" in error(answer, 413)
    assert "more than" in error(ask(server, "api/document", b"x" * (3 * LARGEST_BODY)), 413)     # and one that is really sent


@pytest.mark.parametrize("headers, status", [
    ({"Content-Type": None}, 415), ({"Content-Type": "text/plain"}, 415), ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ({"Content-Length": "-1"}, 411), ({"Content-Length": "many"}, 411), ({"Transfer-Encoding": "chunked"}, 411)])
def test_a_body_of_another_kind_is_refused(server, headers, status):
    error(ask(server, "api/document", b"{}", headers=headers), status)


@pytest.mark.parametrize("request_bytes", [b"\x16\x03\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET /%s/ HTTP/9.9\r\n\r\n",
                                           b"GET /" + b"x" * 70_000, b"GET / HTTP/1.1\r\n" + 200 * b"A: b\r\n" + b"\r\n"])
def test_what_is_not_http_gets_an_error(server, capfd, request_bytes):
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
        connection.sendall(request_bytes)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    assert json.loads(answer.split(b"\r\n\r\n")[-1])["error"] and b"Traceback" not in answer
    assert capfd.readouterr().err == ""


def raw(server, request):
    """The answer to a request of any bytes."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
        with contextlib.suppress(OSError):                  # the server may answer and close before it has read everything
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(OSError):
            while piece := connection.recv(65536):
                answer += piece
    return answer


@pytest.mark.parametrize("address", ["http://[/", "http://[::1", "//[x", "http://[v1.x]]/"])
def test_an_address_that_is_none_gets_an_error(server, capfd, address):
    answer = raw(server, f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 403")) and json.loads(answer.split(b"\r\n\r\n")[-1])["error"]
    assert capfd.readouterr().err == ""


def test_a_length_of_thousands_of_digits_is_refused(server, capfd):
    for length in ("9" * 5000, "0" * 5000 + "7", "1" + "0" * 30):
        assert "more than" in error(ask(server, "api/document", b"{}", headers={"Content-Length": length}), 413)
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_damaged_requests_leave_no_trace(server, capfd):
    post = (f"POST /{server.token}/api/document HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            'Content-Length: 13\r\n\r\n{"edits": []}').encode()
    get = (f"GET http://127.0.0.1/{server.token}/main.js HTTP/1.1\r\nHost: 127.0.0.1:80\r\n"
           "Origin: http://127.0.0.1:80\r\n\r\n").encode()
    for number in range(500):
        rng = np.random.default_rng([31, number])
        request = mutate_bytes(post if number % 2 else get, rng)
        if number % 5 == 0:
            place = int(rng.integers(len(request)))
            more = pick(rng, (b"[", b"%", b"\xff", b"9" * 5000, b"\r\n", b"\0", b":" * 50))
            request = request[:place] + more + request[place:]
        assert b"Traceback" not in raw(server, request), number
        assert capfd.readouterr().err == "", number
    assert ask(server)[0] == 200


def test_other_methods_and_addresses_are_refused(server):
    assert "POST requests only" in error(ask(server, "api/document"), 405)
    error(ask(server, "api/shutdown", {}), 405)
    error(ask(server, "main.js", {}), 405)
    error(ask(server, "main.js", method="PUT"), 501)
    error(ask(server, method="OPTIONS", headers={"Origin": "http://evil.example"}), 501)


def test_a_browser_that_goes_away_leaves_no_trace(server, capfd):
    for request in (b"GET", b"POST /%s/api/document HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                            b"Content-Length: 99\r\n\r\n{" % server.token.encode()):
        with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")       # reset instead of goodbye
            connection.sendall(request)
    assert ask(server)[0] == 200
    assert capfd.readouterr().err == ""


def test_a_port_in_use_is_a_sentence_and_every_server_has_its_own_token(server):
    with pytest.raises(ValueError, match=f"cannot listen on port {server.server_port} of 127.0.0.1: .*choose another port"):
        PageServer(Answers(), server.server_port)
    with PageServer(Answers()) as other:
        assert other.token != server.token and len(other.token) >= 20
        assert other.server_address[0] == "127.0.0.1"
