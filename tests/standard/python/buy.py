"""Buys with the official client, unmodified: buy.py URL KEY METHOD BODY [TIMES] [ACCOUNT] [NETWORK] [NAME].

Prints a line of JSON for each purchase. With ACCOUNT, KEY is the owner of that contract account, which pays. With NETWORK it
pays on that one alone. With NAME it names its purchase.
"""

import asyncio
import base64
import json
import sys

import httpx
from eth_account import Account
from x402 import x402Client
from x402.http.clients import x402HttpxClient
from x402.mechanisms.evm.exact import ExactEvmScheme
from x402.mechanisms.evm.signers import EthAccountSigner


class OwnersSigner(EthAccountSigner):
    """Signs as the owner of a contract account."""

    def __init__(self, owner, account):
        super().__init__(owner)
        self.account = account

    @property
    def address(self):
        return self.account


def header(response, name):
    value = response.headers.get(name)
    return json.loads(base64.b64decode(value)) if value else None


def body_of(response):
    try:
        return response.json()
    except ValueError:
        return response.text


async def buy(url, signer, method, body, network, name):
    seen = {"requests": 0, "offered": None, "signature": None}
    client = x402Client()
    client.register(network, ExactEvmScheme(signer=signer))
    if name:
        from x402.extensions.payment_identifier import append_payment_identifier_to_extensions

        client.on_before_payment_creation(
            lambda context: append_payment_identifier_to_extensions(context.payment_required.extensions or {}, name) and None
        )
    headers = {"content-type": "application/json"} if body else {}
    try:
        async with x402HttpxClient(client, timeout=60) as http:
            watch(http, seen)
            response = await http.request(method, url, content=body or None, headers=headers)
            await response.aread()
    except Exception as error:  # what the client says is what is reported
        return {**seen, "error": f"{type(error).__name__}: {error}"}
    return {
        **seen,
        "status": response.status_code,
        "settled": header(response, "payment-response"),
        "required": header(response, "payment-required"),
        "body": body_of(response),
    }


def watch(http, seen):
    """Notes what the client's transport sends and is told."""
    inner = http._transport._transport.handle_async_request

    async def watched(request: httpx.Request) -> httpx.Response:
        seen["requests"] += 1
        seen["signature"] = request.headers.get("payment-signature")
        response = await inner(request)
        if seen["signature"] is None and response.status_code == 402:
            seen["offered"] = header(response, "payment-required")
        return response

    http._transport._transport.handle_async_request = watched


async def main(url, key, method, body, times="1", account=None, network="eip155:*", name=None):
    owner = Account.from_key(key)
    signer = OwnersSigner(owner, account) if account else EthAccountSigner(owner)
    for _ in range(int(times)):
        print(json.dumps(await buy(url, signer, method, body, network, name)), flush=True)


asyncio.run(main(*sys.argv[1:]))
