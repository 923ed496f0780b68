// A facilitator over the official packages: node facilitator.mjs RPC KEY [--fault NAME] [--authorizer KEY]. With the second key it signs claims and
// refunds of payment channels for sellers.
// POST /fault with a name changes the fault while it runs, with an empty body ends it; GET /calls tells how often it was asked.
import { createServer } from "node:http";
import { parseArgs } from "node:util";
import { x402Facilitator } from "@x402/core/facilitator";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { BatchSettlementEvmScheme } from "@x402/evm/batch-settlement/facilitator";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/facilitator";
import { UptoEvmScheme } from "@x402/evm/upto/facilitator";
import { privateKeyToAccount } from "viem/accounts";
import { announce, wallet } from "./chain.mjs";

const { values, positionals } = parseArgs({ options: { fault: { type: "string" }, authorizer: { type: "string" } }, allowPositionals: true });
const [rpc, key] = positionals;
const client = await wallet(rpc, key);
const signer = toFacilitatorEvmSigner({ ...client, address: client.account.address });
const facilitator = new x402Facilitator()
  .register(`eip155:${client.chain.id}`, new ExactEvmScheme(signer))
  .register(`eip155:${client.chain.id}`, new UptoEvmScheme(signer))
  .register(`eip155:${client.chain.id}`, new BatchSettlementEvmScheme(signer, values.authorizer && privateKeyToAccount(values.authorizer)))
  .registerV1("base", new ExactEvmSchemeV1(signer));

let fault = values.fault;
const calls = { "/supported": 0, "/verify": 0, "/settle": 0 };

const refusal = { success: false, errorReason: "invalid_exact_evm_insufficient_balance", transaction: "" };
// Facilitators say so of what may still be on its way, too.
const failure = { ...refusal, errorReason: "invalid_transaction_state" };
const invented = { success: true, transaction: `0x${"ab".repeat(32)}` };

const erring = (response) => {
  response.statusCode = 500;
  return { error: "internal, at http://user:secret@10.0.0.1/" };
};

// Each is told the path, what an honest facilitator would do, and the response. What is said of a settlement gets its network.
const faults = {
  "settles-and-hangs": async (path, honest) => (path === "/settle" ? void (await honest()) : honest()),
  "settles-and-errs": async (path, honest, response) => {
    const answer = await honest();
    return path === "/settle" ? erring(response) : answer;
  },
  "settles-and-says-refused": async (path, honest) => {
    const answer = await honest();
    return path === "/settle" ? refusal : answer;
  },
  "says-refused-and-settles": async (path, honest) => {
    if (path !== "/settle") return honest();
    setTimeout(() => honest().catch(() => undefined), 2000);
    return refusal;
  },
  "settles-and-says-failed": async (path, honest) => {
    const answer = await honest();
    return path === "/settle" ? failure : answer;
  },
  // As where a request is sent again on its way: what is answered is what became of the second one.
  "settles-twice": async (path, honest) => {
    const answer = await honest();
    return path === "/settle" ? honest() : answer;
  },
  "settles-and-babbles": async (path, honest, response) => {
    const answer = await honest();
    return path === "/settle" ? void response.end("<html>settled, perhaps</html>") : answer;
  },
  "says-settled": async (path, honest) => (path === "/settle" ? invented : honest()),
  "says-refused": async (path, honest) => (path === "/settle" ? refusal : honest()),
  "says-failed": async (path, honest) => (path === "/settle" ? failure : honest()),
  "verify-errs": async (path, honest, response) => (path === "/verify" ? erring(response) : honest()),
  "settle-errs": async (path, honest, response) => (path === "/settle" ? erring(response) : honest()),
  "hangs": async () => undefined,
  "drops": async (_, __, response) => void response.destroy(),
  "redirects": async (_, __, response) => void response.writeHead(308, { location: "http://127.0.0.1:9/" }).end(),
  "floods": async (_, __, response) => void response.end(`{"x":"${"x".repeat(10 * 1024 * 1024)}"}`),
};

async function honestly(path, asked) {
  if (path === "/supported") return facilitator.getSupported();
  const act = path === "/verify" ? facilitator.verify : facilitator.settle;
  return act.call(facilitator, asked.paymentPayload, asked.paymentRequirements);
}

async function answer(request, response) {
  let body = "";
  for await (const chunk of request) body += chunk;
  const path = request.url;
  if (path === "/calls") return calls;
  if (path === "/fault") {
    if (body && !faults[body]) throw new Error(`no such fault: ${body}`);
    fault = body;
    return {};
  }
  calls[path] += 1;
  const asked = body ? JSON.parse(body) : {};
  const honest = () => honestly(path, asked);
  const said = await (fault ? faults[fault](path, honest, response) : honest());
  return said?.success === undefined ? said : { network: asked.paymentRequirements.network, ...said };
}

announce(createServer(async (request, response) => {
  response.setHeader("content-type", "application/json");
  try {
    const value = await answer(request, response);
    if (value !== undefined) response.end(JSON.stringify(value));
  } catch (error) {
    response.statusCode = 500;
    response.end(JSON.stringify({ error: String(error) }));
  }
}));
