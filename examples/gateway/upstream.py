"""A service that knows nothing of payments: python3 upstream.py [PORT [ADDRESS]]. Run it behind x402-gateway, which sells its answers."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/health":
            return self.answer(200, {"ok": True})
        if self.path.startswith("/reports/"):
            # The gateway says who paid. Clients cannot set these headers themselves.
            paid = {name: self.headers[name] for name in ("X402-Payer", "X402-Payment-Id", "X402-Amount")}
            return self.answer(200, {"report": self.path.removeprefix("/reports/"), "paid": paid})
        self.answer(404, {"error": "not_found"})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path == "/mcp":
            return self.tool(body)
        if self.path == "/v1/complete":
            # A tenth of a cent for each word; USDC has 6 decimals.
            words = str(body.get("prompt", "")).split()
            charge = json.dumps({"amount": str(1000 * len(words))})
            return self.answer(200, {"words": words}, {"Settlement-Overrides": charge})
        self.answer(200, {"path": self.path, "body": body})

    def tool(self, message):
        """MCP over HTTP, as much of it as one tool needs."""
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "example", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "search", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": f"found for {self.headers['X402-Payer']}"}]},
        }
        if "id" not in message:
            return self.answer(202, None)
        result = results.get(message["method"])
        reply = {"result": result} if result else {"error": {"code": -32601, "message": "unknown method"}}
        self.answer(200, {"jsonrpc": "2.0", "id": message["id"], **reply})

    def answer(self, status, value, headers={}):
        text = json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        for name, content in headers.items():
            self.send_header(name, content)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    port, address, *_ = [*sys.argv[1:], *["9000", "127.0.0.1"][len(sys.argv) - 1 :]]
    server = ThreadingHTTPServer((address, int(port)), Service)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
