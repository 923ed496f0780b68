"""What tests put behind the gateway, with the standard library alone. /seen, asked directly, lists the requests that arrived."""

import base64
import hashlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SEEN = []
BLOCK = b"0123456789abcdef" * 4096


class Upstream(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_one(self):
        # As gunicorn does, and others by a header of that name.
        for name in ("SCRIPT_NAME", "Script-Name", "X-Script-Name"):
            self.path = self.path.removeprefix(self.headers.get(name, ""))
        path = self.path.split("?")[0]
        if path == "/seen":
            return self.answer(200, json.dumps(SEEN))
        SEEN.append({"method": self.command, "path": self.path, "headers": [[k, v] for k, v in self.headers.items()]})
        if place := self.headers.get("X-Location"):
            hosts = {"host": self.headers["Host"], "told": self.headers["X-Forwarded-Host"]}
            return self.answer(int(self.headers.get("X-Status", 302)), "", [("Location", place.format(**hosts))])
        if path.startswith("/status/"):
            return self.answer(int(path.split("/")[2]), "as it is")
        name = "at_" + path.strip("/").split("/")[0]
        getattr(self, name, self.at_any)()

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = handle_one

    def answer(self, status, text, headers=()):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def at_any(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        self.answer(200, json.dumps({"path": self.path, "method": self.command}))

    def at_digest(self):
        digest, total = hashlib.sha256(), 0
        while True:
            if self.headers.get("Transfer-Encoding") == "chunked":
                size = int(self.rfile.readline(), 16)
                block = self.rfile.read(size)
                self.rfile.readline()
            else:
                block = self.rfile.read(min(65536, int(self.headers["Content-Length"]) - total))
            if not block:
                break
            digest.update(block)
            total += len(block)
        self.answer(200, json.dumps({"bytes": total, "sha256": digest.hexdigest()}))

    def at_big(self):
        blocks = 50 * 1024 * 1024 // len(BLOCK)
        self.send_response(200)
        self.send_header("Content-Length", str(blocks * len(BLOCK)))
        self.end_headers()
        for _ in range(blocks):
            self.wfile.write(BLOCK)

    def at_events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for number in range(3):
            self.wfile.write(f"data: {number}\n\n".encode())
            self.wfile.flush()
            time.sleep(1)
        self.close_connection = True

    def at_socket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept)
        self.end_headers()
        while block := self.connection.recv(4096):
            self.connection.sendall(block[::-1])
        self.close_connection = True

    def at_bill(self):
        bill = [("Pay", "{}"), ("X-Price-Intent", "i"), ("PAYMENT-REQUIRED", "e30="), ("WWW-Authenticate", 'Payment id="1"')]
        self.answer(402, "pay me", bill)

    def at_claims(self):
        false = [("Pay", "{}"), ("X-Price-Intent", "i"), ("X-Payment-Contracts", "0x"), ("PAYMENT-REQUIRED", "e30="),
                 ("PAYMENT-RESPONSE", "e30="), ("Payment-Receipt", "x"), ("X402-Error", "x"), ("Settlement-Overrides", "{}"),
                 ("WWW-Authenticate", 'Payment id="1"'), ("WWW-Authenticate", 'Basic realm="x"'), ("Keep-Alive", "timeout=9"),
                 ("Connection", "X-Private"), ("X-Private", "1"), ("X-Public", "1")]
        self.answer(200, "claims", false)

    def at_trailing(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Trailer", "Pay, PAYMENT-REQUIRED, X-Public")
        self.end_headers()
        self.wfile.write(b"2\r\nhi\r\n0\r\nPay: {}\r\nPAYMENT-REQUIRED: e30=\r\nX-Public: 1\r\n\r\n")

    def at_moved(self):
        host, port = self.server.server_address
        self.answer(302, "", [("Location", f"http://{host}:{port}/elsewhere?x=1")])

    def at_slashless(self):
        if self.path.endswith("/"):
            return self.at_any()
        self.answer(301, "", [("Location", self.path + "/")])

    def at_broken(self):
        self.close_connection = True

    def at_garbage(self):
        self.wfile.write(b"this is no HTTP\r\n\r\n")
        self.close_connection = True

    def at_unasked(self):
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
        self.close_connection = True

    def at_slow(self):
        time.sleep(4)
        self.answer(200, "late")

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, *_):
        pass


server = Server(("127.0.0.1", 0), Upstream)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
# Ends with the one that started it.
import sys

sys.stdin.read()
