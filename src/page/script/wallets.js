  // ---- Wallets.
  const wallets = new Map();
  const declined = (error) => error?.code === 4001;

  // The wallets' own addresses, which open a page in the browser of their apps.
  const APPS = [
    ["MetaMask", `https://metamask.app.link/dapp/${HERE.replace(/^https?:\/\//, "")}`],
    ["Coinbase Wallet", `https://go.cb-w.com/dapp?cb_url=${encodeURIComponent(HERE)}`],
    ["Trust Wallet", `https://link.trustwallet.com/open_url?coin_id=60&url=${encodeURIComponent(HERE)}`],
  ];
  const LAST = "x402-wallet";

  function row(wallet, icon, provider) {
    const made = make("div");
    const main = button(say(takes("signed") ? "$sign" : "$send", { wallet }), () => pay(provider, takes("signed")));
    if (/^data:image\//.test(icon) && icon.length < 100_000) main.prepend(make("img", { alt: "", src: icon }));
    made.append(main);
    if (takes("signed") && takes("transfer")) {
      made.append(button(say("$send_instead"), () => pay(provider, false), "link"));
    }
    return made;
  }

  function announce(id, { name, icon, rdns }, provider) {
    if (typeof provider?.request !== "function" || wallets.size > 11) return;
    if (wallets.has(id) || [...wallets.values()].some((known) => known.provider === provider)) return;
    const wallet = (String(name ?? "").trim() || say("$nameless")).slice(0, 40);
    const own = String(rdns ?? "") || wallet;
    // The one that paid last comes first.
    const isLast = own === get("localStorage", LAST)?.wallet;
    if (!wallets.size) for (const folded of ["else", "paid"]) if (byId(folded) && !state) byId(folded).open = false;
    wallets.set(id, { wallet, own, provider });
    byId("wallets")[isLast ? "prepend" : "append"](row(wallet, String(icon ?? ""), provider));
    show("none", false);
    show("will", true);
  }

  function findWallets() {
    show("will", false);
    addEventListener("eip6963:announceProvider", ({ detail }) =>
      announce(String(detail?.info?.uuid ?? ""), detail?.info ?? {}, detail?.provider));
    dispatchEvent(new Event("eip6963:requestProvider"));
    const injected = () => {
      if (!wallets.size) announce("injected", {}, window.ethereum);
      show("none", !wallets.size);
    };
    byId("apps").append(...APPS.map(([wallet, address]) => link(say("$open_in", { wallet }), address, "button plain")));
    addEventListener("ethereum#initialized", injected);
    setTimeout(() => {
      injected();
      if (!wallets.size && innerWidth > 896) showCode();
    }, 500);
  }

  // The page's own address as a code: with it, a phone opens the page where its wallet is.
  function showCode() {
    byId("code").onload = () => show("phone", true);
    const draw = (image) => { byId("code").src = URL.createObjectURL(image); };
    part("code").then((response) => response.blob()).then(draw, () => {});
  }

  const hex = (id) => `0x${id.toString(16)}`;

  // The chain on which the wallet pays: where it is, if the seller takes this there, or else the first such one.
  async function chosen(ask, way) {
    const current = async () => Number(await ask("eth_chainId"));
    const at = await current();
    const able = data.chains.filter((chain) => chain[way]);
    const here = able.find(({ id }) => id === at);
    if (here) return here;
    const [{ id, name, rpc, explorer: site }] = able;
    const chainId = hex(id);
    tell("$switching", "busy", { network: name });
    try {
      await ask("wallet_switchEthereumChain", [{ chainId }]);
    } catch (error) {
      if (declined(error)) throw error;
      const unknown = [error?.code, error?.data?.originalError?.code].includes(4902);
      if (!unknown || !rpc) return null;
      // As EIP-3085 has it.
      const nativeCurrency = { name: "Ether", symbol: "ETH", decimals: 18 };
      await ask("wallet_addEthereumChain",
        [{ chainId, chainName: name, nativeCurrency, rpcUrls: [rpc], blockExplorerUrls: [site] }]);
    }
    return await current() === id ? able[0] : null;
  }

  // What stands before the argument of an ERC-20 `balanceOf`.
  const BALANCE_OF = "0x70a08231";

  // What the account has of the token, in base units; `null` where the wallet does not tell, or not soon.
  async function balance(ask, from, { token }) {
    const asked = ask("eth_call", [{ to: token, data: BALANCE_OF + from.slice(2).padStart(64, "0") }, "latest"]);
    try {
      return BigInt(await Promise.race([asked, sleep(3)]));
    } catch {
      return null;
    }
  }

  const decimal = (units) => {
    const digits = String(units).padStart(data.decimals + 1, "0");
    const at = digits.length - data.decimals;
    // Narrow spaces between thousands, as in the price.
    const whole = at < 5 ? digits.slice(0, at) : digits.slice(0, at).replace(/\B(?=(\d{3})+$)/g, "\u202f");
    return `${whole}.${digits.slice(at)}`.replace(/\.?0*$/, "");
  };

  const fields = (list) => list.split(",").map((field) => {
    const [type, name] = field.split(" ");
    return { name, type };
  });

  // An authorization (EIP-3009), bound to this intent by its nonce.
  async function signature(ask, from, { id, signed: { accepted, nonce } }) {
    const { extra: { name, version }, asset, payTo, amount, maxTimeoutSeconds } = accepted;
    const validBefore = String(now() + maxTimeoutSeconds);
    const message = { from, to: payTo, value: amount, validAfter: "0", validBefore, nonce };
    const primaryType = "TransferWithAuthorization";
    const types = {
      EIP712Domain: fields("string name,string version,uint256 chainId,address verifyingContract"),
      [primaryType]: fields("address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce"),
    };
    const domain = { name, version, chainId: id, verifyingContract: asset };
    const signed = await ask("eth_signTypedData_v4", [from, JSON.stringify({ types, primaryType, domain, message })]);
    const payment = { x402Version: 2, resource: data.resource, accepted, payload: { signature: signed, authorization: message } };
    return base64(new TextEncoder().encode(JSON.stringify(payment)));
  }

  let paying = false;
  async function pay(provider, bySignature) {
    if (paying) return;
    paying = true;
    byId("wallets").disabled = true;
    // While the wallet asks, nothing else is to be done.
    const others = ["else", "paid"].filter((id) => byId(id) && !byId(id).hidden);
    for (const id of others) show(id, false);
    const paid = await during(paidBy((method, params) => provider.request({ method, params }), bySignature));
    paying = false;
    byId("wallets").disabled = false;
    if (paid) {
      const { own } = [...wallets.values()].find((known) => known.provider === provider);
      put("localStorage", LAST, { intent: "", at: now(), wallet: own });
      await redeem();
    } else for (const id of others) show(id, true);
  }

  // Whether something was paid.
  async function paidBy(ask, bySignature) {
    const before = state;
    let mayBeSent = false;
    try {
      tell("$confirm", "busy");
      const [from] = await ask("eth_requestAccounts");
      const chain = await chosen(ask, bySignature ? "signed" : "transfer");
      if (!chain) {
        tell("$wrong_network", "bad");
        return false;
      }
      const held = await balance(ask, from, chain);
      if (held !== null && held < BigInt(data.amount)) {
        tell("$short", "bad", { balance: decimal(held), network: chain.name });
        return false;
      }
      const told = held === null ? "" : ` ${say("$balance", { balance: decimal(held) })}`;
      tellText(say("$confirm") + told, "busy");
      if (bySignature) {
        const header = await signature(ask, from, chain);
        save({ intent: data.intent, header, chain: chain.id });
        return true;
      }
      save({ intent: data.intent, asked: true, chain: chain.id });
      mayBeSent = true;
      const { to, data: call } = chain.transfer;
      const hash = await ask("eth_sendTransaction", [{ from, to, value: "0x0", data: call, chainId: hex(chain.id) }]);
      save({ ...state, asked: false, sent: true, hash: String(hash).match(HASH)[0] });
      return true;
    } catch (error) {
      if (declined(error)) {
        restore(before);
        tell("$declined");
      } else {
        tell(mayBeSent ? "$wallet_failed" : "$wallet_failed_early", "bad");
        if (mayBeSent) askForHash();
      }
      return false;
    }
  }

  // ---- The payer signs the redemption, so that a stranger who sees the payment on the chain cannot take its answer.
  const provers = (message) => [...wallets.values()].map(({ wallet, provider }) =>
    button(say("$prove", { wallet }), () => prove(provider, message), "plain"));

  // As the seller builds it.
  const redemption = () => ["x402 redemption", `chain: eip155:${chainOf(state.chain).id}`,
    `transaction: ${state.hash.toLowerCase()}`, `intent: ${state.intent}`].join("\n");

  async function prove(provider, message) {
    newest += 1;
    const ask = (method, params) => provider.request({ method, params });
    try {
      tell("$proving", "busy");
      const [from] = await ask("eth_requestAccounts");
      const bytes = [...new TextEncoder().encode(message)].map((byte) => byte.toString(16).padStart(2, "0"));
      const signed = await ask("personal_sign", [`0x${bytes.join("")}`, from]);
      const { intent, secret, chain } = state;
      save({ intent, secret, chain, hash: message.match(HASH)[0], signed });
    } catch (error) {
      tell(declined(error) ? "$declined" : "$wallet_failed_early", "bad");
      actions(again(), forget());
      return;
    }
    await redeem();
  }
