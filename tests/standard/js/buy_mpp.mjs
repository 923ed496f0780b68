// Buys with mppx, unmodified, by MPP's charge on an EVM chain: node buy_mpp.mjs URL KEY METHOD BODY. Prints a line of JSON.
import { Mppx } from "mppx/client";
import { assets, charge } from "mppx/evm/client";
import { privateKeyToAccount } from "viem/accounts";

const [url, key, method, body] = process.argv.slice(2);
const seen = { requests: 0, signatures: [] };
const told = (value) => (value ? JSON.parse(Buffer.from(value, "base64url").toString()) : null);
const watched = async (input, init) => {
  const request = new Request(input, init);
  seen.requests += 1;
  const shown = request.headers.get("authorization");
  if (shown) seen.signatures.push(shown);
  return fetch(request);
};

try {
  const buyer = Mppx.create({ methods: [charge({ account: privateKeyToAccount(key), currencies: [assets.base.USDC] })], fetch: watched, polyfill: false });
  const headers = body ? { "content-type": "application/json" } : {};
  const answer = await buyer.fetch(url, { method, headers, ...(body && { body }) });
  console.log(JSON.stringify({ ...seen, status: answer.status, settled: told(answer.headers.get("payment-receipt")), body: await answer.json() }));
} catch (error) {
  console.log(JSON.stringify({ ...seen, error: String(error.message ?? error) }));
}
