// Buys with an official client of version 1, unmodified: node buy_v1.mjs fetch|axios URL KEY METHOD BODY. Prints a line of JSON.
import { privateKeyToAccount } from "viem/accounts";
import axios from "axios";
import { withPaymentInterceptor } from "x402-axios";
import { wrapFetchWithPayment } from "x402-fetch";

const [client, url, key, method, body] = process.argv.slice(2);
const account = privateKeyToAccount(key);
const headers = body ? { "content-type": "application/json" } : {};
const seen = { requests: 0, signature: null };
const told = (value) => (value ? JSON.parse(Buffer.from(value, "base64").toString()) : null);

const buyers = {
  // More than its limit of ten cents.
  async fetch() {
    const watched = (input, init) => {
      seen.requests += 1;
      seen.signature = new Headers(init.headers).get("x-payment");
      return fetch(input, init);
    };
    const answer = await wrapFetchWithPayment(watched, account, 1_000_000n)(url, { method, headers, ...(body && { body }) });
    return { status: answer.status, settled: told(answer.headers.get("x-payment-response")), body: await answer.json() };
  },
  async axios() {
    const buyer = withPaymentInterceptor(axios.create(), account);
    buyer.interceptors.request.use((config) => {
      seen.requests += 1;
      seen.signature = config.headers.get("x-payment") ?? null;
      return config;
    });
    const answer = await buyer.request({ url, method, headers, data: body || undefined });
    return { status: answer.status, settled: told(answer.headers["x-payment-response"]), body: answer.data };
  },
};

try {
  const answer = await buyers[client]();
  console.log(JSON.stringify({ ...seen, ...answer }));
} catch (error) {
  const { status, data } = error.response ?? {};
  console.log(JSON.stringify({ ...seen, status, body: data, error: String(error.message ?? error) }));
}
