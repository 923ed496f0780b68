  // ---- Wallets.
  const wallets = new Map();
  const declined = (error) => error?.code === 4001;

  // The wallets' own addresses, which open a page in the browser of their apps.
  const APPS = [
    ["MetaMask", () => `https://metamask.app.link/dapp/${HERE.replace(/^https?:\/\//, "")}`],
    ["Coinbase Wallet", () => `https://go.cb-w.com/dapp?cb_url=${encodeURIComponent(HERE)}`],
    ["Trust Wallet", () => `https://link.trustwallet.com/open_url?coin_id=60&url=${encodeURIComponent(HERE)}`],
  ];
  const LAST = "x402-wallet";

  function row(wallet, icon, provider) {
    const made = document.createElement("div");
    const main = button(say(takes("signed") ? "sign" : "send", { wallet }), () => pay(provider, takes("signed")));
    if (/^data:image\//.test(icon) && icon.length < 100_000) {
      const image = new Image();
      image.alt = "";
      image.src = icon;
      main.prepend(image);
    }
    made.append(main);
    if (takes("signed") && takes("transfer")) {
      const other = button(say("send_instead"), () => pay(provider, false));
      other.className = "link";
      made.append(other);
    }
    return made;
  }

  function announce(id, { name, icon, rdns }, provider) {
    if (typeof provider?.request !== "function" || wallets.size > 11) return;
    if (wallets.has(id) || [...wallets.values()].some((known) => known.provider === provider)) return;
    const wallet = (String(name ?? "").trim() || say("nameless")).slice(0, 40);
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
    byId("apps").replaceChildren(...APPS.map(([wallet, address]) => {
      const app = link(say("open_in", { wallet }), address());
      app.className = "button plain";
      return app;
    }));
    addEventListener("ethereum#initialized", injected);
    setTimeout(injected, 500);
  }

  // The chain on which the wallet pays: where it is, if the seller takes this there, or else the first such one.
  async function chosen(ask, way) {
    const current = async () => Number(await ask("eth_chainId"));
    const at = await current();
    const able = data.chains.filter((chain) => chain[way]);
    const here = able.find(({ network }) => network.id === at);
    if (here) return here;
    const [{ network, name }] = able;
    tell("switching", { network: name }, "", true);
    try {
      await ask("wallet_switchEthereumChain", [{ chainId: network.hex }]);
    } catch (error) {
      if (declined(error)) throw error;
      const unknown = [error?.code, error?.data?.originalError?.code].includes(4902);
      if (!unknown || !network.add) return null;
      await ask("wallet_addEthereumChain", [network.add]);
    }
    return await current() === network.id ? able[0] : null;
  }

  // What the account has of the token, in base units; `null` where the wallet does not tell, or not soon.
  async function balance(ask, from, { token }) {
    const asked = ask("eth_call", [{ to: token, data: data.balance + from.slice(2).padStart(64, "0") }, "latest"]);
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

  async function signature(ask, from, chain) {
    const { accepted, timeout, typed } = chain.signed;
    const message = { from, ...typed.message, validBefore: String(now() + timeout) };
    const signed = await ask("eth_signTypedData_v4", [from, JSON.stringify({ ...typed, message })]);
    const payment = { x402Version: 2, resource: data.resource, accepted, payload: { signature: signed, authorization: message } };
    return btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(payment))));
  }

  let paying = false;
  async function pay(provider, bySignature) {
    if (paying) return;
    paying = true;
    for (const each of byId("wallets").querySelectorAll("button")) each.disabled = true;
    // While the wallet asks, nothing else is to be done.
    const others = ["else", "paid"].filter((id) => byId(id) && !byId(id).hidden);
    for (const id of others) show(id, false);
    const paid = await during(paidBy((method, params) => provider.request({ method, params }), bySignature));
    paying = false;
    for (const each of byId("wallets").querySelectorAll("button")) each.disabled = false;
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
      tell("confirm", {}, "", true);
      const [from] = await ask("eth_requestAccounts");
      const chain = await chosen(ask, bySignature ? "signed" : "transfer");
      if (!chain) {
        tell("wrong_network", {}, "bad");
        return false;
      }
      const held = await balance(ask, from, chain);
      if (held !== null && held < BigInt(data.amount)) {
        tell("short", { balance: decimal(held), network: chain.name }, "bad");
        return false;
      }
      tellText(held === null ? say("confirm") : `${say("confirm")} ${say("balance", { balance: decimal(held) })}`, "", true);
      if (bySignature) {
        const header = await signature(ask, from, chain);
        save({ intent: data.intent, header, chain: chain.network.id });
        return true;
      }
      save({ intent: data.intent, asked: true, chain: chain.network.id });
      mayBeSent = true;
      const { to, data: call } = chain.transfer;
      const hash = await ask("eth_sendTransaction", [{ from, to, value: "0x0", data: call, chainId: chain.network.hex }]);
      save({ ...state, asked: false, sent: true, hash: String(hash).match(HASH)[0] });
      return true;
    } catch (error) {
      if (declined(error)) {
        restore(before);
        tell("declined");
      } else {
        tell(mayBeSent ? "wallet_failed" : "wallet_failed_early", {}, "bad");
        if (mayBeSent) askForHash();
      }
      return false;
    }
  }

  // ---- The payer signs the redemption, so that a stranger who sees the payment on the chain cannot take its answer.
  const provers = (message) => [...wallets.values()].map(({ wallet, provider }) =>
    button(say("prove", { wallet }), () => prove(provider, message), true));

  // As the seller builds it.
  const redemption = () => ["x402 redemption", `chain: eip155:${chainOf(state.chain).network.id}`,
    `transaction: ${state.hash.toLowerCase()}`, `intent: ${state.intent}`].join("\n");

  async function prove(provider, message) {
    newest += 1;
    const ask = (method, params) => provider.request({ method, params });
    try {
      tell("proving", {}, "", true);
      const [from] = await ask("eth_requestAccounts");
      const hex = [...new TextEncoder().encode(message)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
      const signed = await ask("personal_sign", [`0x${hex}`, from]);
      const { intent, secret, chain } = state;
      save({ intent, secret, chain, hash: message.match(HASH)[0], signed });
    } catch (error) {
      tell(declined(error) ? "declined" : "wallet_failed_early", {}, "bad");
      actions(again(), forget());
      return;
    }
    await redeem();
  }
