// Sells as version 1 does, with its official middleware, unmodified: node express_v1.mjs FACILITATOR RECIPIENT [PORT].
import { paymentMiddleware } from "x402-express";
import { PRICES, open } from "./shop.mjs";

const [url, payTo, port] = process.argv.slice(2);
const routes = Object.entries(PRICES).map(([route, price]) => {
  const config = { description: `what ${route} answers`, mimeType: "application/json" };
  return [route, { price, network: "base", config }];
});

open(paymentMiddleware(payTo, Object.fromEntries(routes), { url }), port);
