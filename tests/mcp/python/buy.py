"""Calls tools with the official client, unmodified: buy.py URL KEY TOOL ARGUMENTS [TIMES].

Prints a line of JSON for each call.
"""

import asyncio
import json
import sys

from eth_account import Account
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from x402 import x402Client
from x402.mcp import x402MCPSession
from x402.mechanisms.evm.exact import ExactEvmScheme
from x402.mechanisms.evm.signers import EthAccountSigner


def plain(value):
    return value.model_dump(mode="json", by_alias=True, exclude_none=True) if hasattr(value, "model_dump") else value


async def main(url, key, tool, arguments, times="1"):
    client = x402Client()
    client.register("eip155:*", ExactEvmScheme(signer=EthAccountSigner(Account.from_key(key))))
    async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write) as session:
        paying = x402MCPSession(session, client)
        await paying.initialize()
        tools = [tool.name for tool in (await paying.list_tools()).tools]
        for _ in range(int(times)):
            try:
                result = await paying.call_tool(tool, json.loads(arguments))
            except Exception as error:  # what the client says is what is reported
                print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
                continue
            text = [plain(content).get("text") for content in result.content]
            told = {"tools": tools, "isError": result.is_error, "paid": result.payment_made, "text": text}
            print(json.dumps({**told, "settled": plain(result.payment_response)}), flush=True)


asyncio.run(main(*sys.argv[1:]))
