// Sells with mppx, unmodified, by MPP alone: node express_mpp.mjs FACILITATOR RECIPIENT [PORT].
// A facilitator of x402 settles for it, as it settles for the other shops.
import { HTTPFacilitatorClient } from "@x402/core/server";
import { assets, charge } from "mppx/evm/server";
import { Mppx } from "mppx/express";
import { PRICES, open } from "./shop.mjs";

const [url, recipient, port] = process.argv.slice(2);
const facilitator = new HTTPFacilitatorClient({ url, timeoutMs: 20_000 });

async function settle({ payload: { signature, type, ...authorization }, request }) {
  const accepted = {
    scheme: "exact",
    network: `eip155:${request.methodDetails.chainId}`,
    amount: request.amount,
    asset: request.currency,
    payTo: request.recipient,
    maxTimeoutSeconds: 300,
    extra: { name: "USD Coin", version: "2" },
  };
  const payment = { x402Version: 2, accepted, payload: { authorization, signature } };
  const settled = await facilitator.settle(payment, accepted);
  if (!settled.success) throw new Error(settled.errorReason);
  return { reference: settled.transaction };
}

const seller = Mppx.create({
  methods: [charge({ currency: assets.base.USDC, recipient, settle })],
  realm: "shop.example",
  // The same after a restart: what was asked for before is known again.
  secretKey: "a secret of these tests, of many characters",
});

open((request, response, next) => {
  const price = PRICES[`${request.method} ${request.path}`];
  return price ? seller.charge({ amount: price.slice(1) })(request, response, next) : next();
}, port);
