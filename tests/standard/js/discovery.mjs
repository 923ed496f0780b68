// Reads JSON from its standard input: `openapi`, the document, and `required`, values of PAYMENT-REQUIRED. Prints a line of JSON: what
// a linter of OpenAPI finds, which of the prices an indexer cannot read, and what the official validator says of each `bazaar`.
import { text } from "node:stream/consumers";
import { PaymentInfoSchema } from "@agentcash/discovery";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import { extractDiscoveryInfoFromExtension, validateDiscoveryExtension, validateDiscoveryExtensionSpec } from "@x402/extensions/bazaar";

const { openapi, required } = JSON.parse(await text(process.stdin));

// A licence is the seller's to name, and a seller on this machine is reached at this machine.
const rules = { "info-license": "off", "no-server-example.com": "off" };
const config = await createConfig({ extends: ["recommended-strict"], rules });
const found = await lintFromString({ source: JSON.stringify(openapi), config, absoluteRef: "/openapi.json" });
const lint = found.map(({ ruleId, message, location }) => `${ruleId}: ${message} (${location[0]?.pointer})`);

const operations = Object.entries(openapi.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => [`${method} ${path}`, operation["x-payment-info"]]));
const unread = operations.filter(([, info]) => !PaymentInfoSchema.safeParse(info).success).map(([name]) => name);

const bazaar = required.map((header) => {
  const extension = decodePaymentRequiredHeader(header).extensions?.bazaar;
  if (!extension) return null;
  const verdicts = [validateDiscoveryExtension(extension), validateDiscoveryExtensionSpec(extension)];
  const errors = verdicts.flatMap(({ errors }) => errors ?? []);
  return { valid: verdicts.every(({ valid }) => valid), errors, info: errors.length ? null : extractDiscoveryInfoFromExtension(extension) };
});
console.log(JSON.stringify({ lint, unread, bazaar }));
