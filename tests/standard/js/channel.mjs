// The official client, with a payment channel: node channel.mjs URL KEY RPC STEP… Each step is `buy:PROMPT:WORDS:TIMES`, `forget` or `close`, and
// prints a line of JSON for each purchase and for the closing. A process begins without any knowledge of its channel, as after `forget`.
import { decodePaymentResponseHeader } from "@x402/core/http";
import { toClientEvmSigner } from "@x402/evm";
import { BatchSettlementEvmScheme, InMemoryClientChannelStorage } from "@x402/evm/batch-settlement/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import { reader } from "./chain.mjs";

const [url, key, rpc, ...steps] = process.argv.slice(2);
const signer = toClientEvmSigner(privateKeyToAccount(key), await reader(rpc));

let requests = 0;
let statuses = [];
let signature = null;
const watched = async (input, init) => {
  const sent = new Request(input, init);
  requests += 1;
  const response = await fetch(sent);
  signature = sent.headers.get("payment-signature");
  if (signature) statuses.push(response.status);
  return response;
};

// What it knows of its channel is in its storage.
let scheme;
let buying;
function forget() {
  scheme = new BatchSettlementEvmScheme(signer, { storage: new InMemoryClientChannelStorage(), depositPolicy: { depositMultiplier: 60 } });
  const client = new x402Client().register("eip155:*", scheme);
  client.setSpendControls({ allowedAssets: true });
  buying = wrapFetchWithPayment(watched, client);
}
forget();

async function buy(prompt, words) {
  [requests, statuses] = [0, []];
  const body = JSON.stringify({ prompt, words });
  const response = await buying(url, { method: "POST", headers: { "content-type": "application/json" }, body });
  const settled = response.headers.get("payment-response");
  const text = await response.text();
  console.log(JSON.stringify({
    requests,
    statuses,
    signature,
    status: response.status,
    settled: settled && decodePaymentResponseHeader(settled),
    words: response.ok ? JSON.parse(text).words.length : 0,
  }));
}

for (const step of steps) {
  const [name, prompt, words, times] = step.split(":");
  if (name === "forget") forget();
  if (name === "close") console.log(JSON.stringify(await scheme.refund(url).then((settled) => ({ settled }), (error) => ({ error: String(error) }))));
  if (name === "buy") for (let n = 0; n < Number(times); n += 1) await buy(prompt, Number(words));
}
