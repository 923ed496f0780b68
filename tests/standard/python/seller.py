"""Sells with the official middleware, unmodified: seller.py FACILITATOR RECIPIENT [PORT].

GET /choice offers a scheme and a network that nobody knows before the one that is meant.
"""

import collections
import os
import socket
import sys
import threading

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from x402 import x402ResourceServer
from x402.http import FacilitatorConfig, HTTPFacilitatorClient
from x402.http.middleware.fastapi import payment_middleware
from x402.mechanisms.evm.exact import ExactEvmServerScheme
from x402.schemas import SupportedKind

NETWORK = "eip155:8453"
ELSEWHERE = "eip155:424242"
PRICES = {"GET /weather": "$0.01", "POST /report": "$0.02", "GET /choice": "$0.03", "GET /broken": "$0.01", "GET /dear": "$5"}
DROP = {"asset": "0x00000000000000000000000000000000000000aa", "amount": "7", "extra": {"name": "Drop", "version": "1"}}


class Facilitator(HTTPFacilitatorClient):
    """One that knows the unknown as little: it is never asked about that."""

    def get_supported(self):
        supported = super().get_supported()
        unknown = [("stream", NETWORK), ("exact", ELSEWHERE)]
        kinds = [SupportedKind(x402_version=2, scheme=scheme, network=network) for scheme, network in unknown]
        return supported.model_copy(update={"kinds": [*supported.kinds, *kinds]})


class Stream(ExactEvmServerScheme):
    scheme = "stream"

    def enhance_payment_requirements(self, requirements, supported_kind, extension_keys):
        return requirements


def accepted(route, recipient):
    ours = {"scheme": "exact", "network": NETWORK, "payTo": recipient, "price": PRICES[route]}
    unknown = [
        {"scheme": "stream", "network": NETWORK, "payTo": "nobody", "price": {**DROP, "asset": "drops"}},
        {"scheme": "exact", "network": ELSEWHERE, "payTo": recipient, "price": DROP},
    ]
    return [*unknown, ours] if route == "GET /choice" else ours


def paywall(facilitator, recipient):
    server = x402ResourceServer(Facilitator(FacilitatorConfig(url=facilitator, timeout=20)))
    server.register(NETWORK, ExactEvmServerScheme()).register(ELSEWHERE, ExactEvmServerScheme()).register(NETWORK, Stream())
    told = {"mimeType": "application/json"}
    routes = {
        route: {**told, "accepts": accepted(route, recipient), "description": f"what {route} answers"} for route in PRICES
    }
    return payment_middleware(routes, server)


def shop(facilitator, recipient):
    app, runs = FastAPI(), collections.Counter()
    app.middleware("http")(paywall(facilitator, recipient))

    def ran(request):
        runs[request.url.path] += 1
        return runs[request.url.path]

    @app.get("/runs")
    async def how_often():
        return runs

    @app.get("/free")
    async def free(request: Request):
        return {"free": True, "run": ran(request)}

    @app.get("/weather")
    async def weather(request: Request):
        return {"weather": "sunny", "run": ran(request)}

    @app.post("/report")
    async def report(request: Request):
        return {"report": await request.json(), "run": ran(request)}

    @app.get("/choice")
    async def choice(request: Request):
        return {"choice": "mine", "run": ran(request)}

    @app.get("/dear")
    async def dear(request: Request):
        return {"dear": True, "run": ran(request)}

    @app.get("/broken")
    async def broken(request: Request):
        ran(request)
        return JSONResponse({"error": "broken"}, status_code=500)

    return app


def ends_with_its_input():
    sys.stdin.read()
    os._exit(0)


def main(facilitator, recipient, port="0"):
    threading.Thread(target=ends_with_its_input, daemon=True).start()
    app = shop(facilitator, recipient)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(port)))
    # Whoever connects from now on waits until it serves.
    listener.listen()
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


main(*sys.argv[1:])
