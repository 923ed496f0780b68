"""Buys with pympp, unmodified, by MPP's charge on an EVM chain: buy_mpp.py URL KEY METHOD BODY. Prints a line of JSON."""

import asyncio
import base64
import json
import sys

from eth_account import Account
from mpp.client import Mpp
from mpp.methods.evm import BASE_USDC
from mpp.methods.evm import client as evm


async def main(url, key, method, body):
    headers = {"content-type": "application/json"} if body else {}
    signed = []
    try:
        charge = evm.charge(currency=BASE_USDC, account=Account.from_key(key))
        async with Mpp(methods=[charge]) as mpp:
            mpp.on_credential_created(lambda event: signed.append(1))
            async with mpp.client(timeout=60) as http:
                answer = await http.request(method, url, content=body or None, headers=headers)
                await answer.aread()
    except Exception as error:  # what the client says is what is reported
        print(json.dumps({"signed": len(signed), "error": f"{type(error).__name__}: {error}"}))
        return
    told = answer.headers.get("payment-receipt")
    settled = json.loads(base64.urlsafe_b64decode(told + "=" * (-len(told) % 4))) if told else None
    print(json.dumps({"status": answer.status_code, "signed": len(signed), "settled": settled, "body": answer.json()}))


asyncio.run(main(*sys.argv[1:]))
