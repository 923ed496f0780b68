"""Buys with the official client of version 1, unmodified: buy_v1.py URL KEY METHOD BODY. Prints a line of JSON."""

import asyncio
import base64
import json
import sys

from eth_account import Account
from x402.clients.httpx import x402HttpxClient


async def main(url, key, method, body):
    headers = {"content-type": "application/json"} if body else {}
    try:
        async with x402HttpxClient(account=Account.from_key(key), timeout=60) as http:
            answer = await http.request(method, url, content=body or None, headers=headers)
            await answer.aread()
    except Exception as error:  # what the client says is what is reported
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
        return
    told = answer.headers.get("x-payment-response")
    settled = json.loads(base64.b64decode(told)) if told else None
    print(json.dumps({"status": answer.status_code, "settled": settled, "body": answer.json()}))


asyncio.run(main(*sys.argv[1:]))
