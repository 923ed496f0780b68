// Sells with the official middleware, unmodified: node express.mjs FACILITATOR RECIPIENT [PORT].
// GET /metered asks for at most five cents. GET /choice offers a scheme and a network that nobody knows before the one that is meant.
import { HTTPFacilitatorClient } from "@x402/core/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { UptoEvmScheme } from "@x402/evm/upto/server";
import { paymentMiddleware, x402ResourceServer } from "@x402/express";
import { PRICES, open } from "./shop.mjs";

const NETWORK = "eip155:8453";
const ELSEWHERE = "eip155:424242";
const [url, payTo, port] = process.argv.slice(2);

// The facilitator knows them as little: it is never asked about them.
class Facilitator extends HTTPFacilitatorClient {
  async getSupported() {
    const supported = await super.getSupported();
    const unknown = [["stream", NETWORK], ["exact", ELSEWHERE]];
    const kinds = unknown.map(([scheme, network]) => ({ x402Version: 2, scheme, network }));
    return { ...supported, kinds: [...supported.kinds, ...kinds] };
  }
}

const stream = {
  scheme: "stream",
  defaultAssetTransferMethod: "drops",
  paymentFlows: { drops: { supported: ["authorization"], default: "authorization" } },
  parsePrice: async (price) => price,
  enhancePaymentRequirements: async (requirements) => requirements,
};

const server = new x402ResourceServer(new Facilitator({ url, timeoutMs: 20_000 }))
  .register(NETWORK, new ExactEvmScheme())
  .register(NETWORK, new UptoEvmScheme())
  .register(ELSEWHERE, new ExactEvmScheme())
  .register(NETWORK, stream);

const token = { asset: "0x00000000000000000000000000000000000000aa", amount: "7", extra: { name: "Drop", version: "1" } };
const ours = (price) => ({ scheme: "exact", network: NETWORK, payTo, price });
const unknown = [
  { scheme: "stream", network: NETWORK, payTo: "nobody", price: { ...token, asset: "drops" } },
  { scheme: "exact", network: ELSEWHERE, payTo, price: token },
];
const routes = Object.entries(PRICES).map(([route, price]) => {
  const accepts = route === "GET /choice" ? [...unknown, ours(price)] : ours(price);
  return [route, { accepts, description: `what ${route} answers`, mimeType: "application/json" }];
});

const metered = { scheme: "upto", network: NETWORK, payTo, price: "$0.05" };
routes.push(["GET /metered", { accepts: metered, description: "what is metered", mimeType: "application/json" }]);

open(paymentMiddleware(Object.fromEntries(routes), server), port);
