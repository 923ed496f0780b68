// Buys with the official client, unmodified: node buy.mjs URL KEY RPC METHOD BODY [TIMES] [--account ADDRESS] [--keep] [--network ID].
// From a seller of version 1 as well. Prints a line of JSON for each purchase. With --account KEY is the owner of that contract account, which pays; with --keep
// what is signed is printed and not sent. With --network it pays on that one alone. With --name
// it names its purchase.
import { parseArgs } from "node:util";
import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from "@x402/core/http";
import { toClientEvmSigner } from "@x402/evm";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/client";
import { UptoEvmScheme } from "@x402/evm/upto/client";
import { appendPaymentIdentifierToExtensions } from "@x402/extensions/payment-identifier";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import { reader } from "./chain.mjs";

const options = { account: { type: "string" }, keep: { type: "boolean" }, network: { type: "string", default: "eip155:*" }, name: { type: "string" } };
const { values, positionals } = parseArgs({ options, allowPositionals: true });
const [url, key, rpc, method, body, times = "1"] = positionals;

const owner = privateKeyToAccount(key);
const payer = { address: values.account ?? owner.address, signTypedData: (message) => owner.signTypedData(message) };
const signer = toClientEvmSigner(payer, await reader(rpc));
const client = new x402Client()
  .register(values.network, new ExactEvmScheme(signer))
  .register(values.network, new UptoEvmScheme(signer))
  .registerV1("base", new ExactEvmSchemeV1(signer));

// Tokens that are none of its own list are bought, too.
client.setSpendControls({ allowedAssets: true });

if (values.name) {
  client.onBeforePaymentCreation(async ({ paymentRequired }) => {
    appendPaymentIdentifierToExtensions(paymentRequired.extensions ?? {}, values.name);
  });
}

const request = { method, ...(body && { body, headers: { "content-type": "application/json" } }) };
const header = (response, name, decode) => {
  const value = response?.headers.get(name);
  return value ? decode(value) : null;
};
const either = (response, name, former, decode) => header(response, name, decode) ?? header(response, former, decode);

async function reported(response, more) {
  const text = await response.text();
  let json = text;
  try {
    json = JSON.parse(text);
  } catch {}
  console.log(JSON.stringify({
    ...more,
    status: response.status,
    settled: either(response, "payment-response", "x-payment-response", decodePaymentResponseHeader),
    required: header(response, "payment-required", decodePaymentRequiredHeader),
    body: json,
  }));
}

async function buy() {
  const seen = { requests: 0, offered: null, signature: null };
  const watched = async (input, init) => {
    const sent = new Request(input, init);
    seen.requests += 1;
    seen.signature = sent.headers.get("payment-signature") ?? sent.headers.get("x-payment");
    if (seen.signature && values.keep) throw new Error("kept");
    const response = await fetch(sent);
    if (!seen.signature && response.status === 402) {
      seen.offered = header(response, "payment-required", decodePaymentRequiredHeader) ?? (await response.clone().json().catch(() => null));
    }
    return response;
  };
  try {
    await reported(await wrapFetchWithPayment(watched, client)(url, request), seen);
  } catch (error) {
    console.log(JSON.stringify({ ...seen, error: String(error.message ?? error) }));
  }
}

for (let n = 0; n < Number(times); n += 1) await buy();
