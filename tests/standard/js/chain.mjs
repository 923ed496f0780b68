// What the other scripts have in common: a chain by its endpoint.
import { createPublicClient, createWalletClient, defineChain, http, nonceManager, publicActions } from "viem";
import { privateKeyToAccount } from "viem/accounts";

export const MULTICALL3 = "0xcA11bde05977b3631167028862bE2a173976CA11";

async function chainAt(rpc) {
  const id = await createPublicClient({ transport: http(rpc) }).getChainId();
  return defineChain({
    id,
    name: "a development chain",
    nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
    rpcUrls: { default: { http: [rpc] } },
    contracts: { multicall3: { address: MULTICALL3 } },
  });
}

export async function reader(rpc) {
  return createPublicClient({ chain: await chainAt(rpc), transport: http(rpc), pollingInterval: 100 });
}

export async function wallet(rpc, key) {
  const account = privateKeyToAccount(key, { nonceManager });
  const client = { account, chain: await chainAt(rpc), transport: http(rpc), pollingInterval: 100 };
  return createWalletClient(client).extend(publicActions);
}

// Serves until the standard input ends, which it does with whoever started this.
export function announce(server, port = 0) {
  process.stdin.resume().on("end", () => process.exit());
  server.listen(port, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
}
