  // ---- Wallets.
  const wallets = new Map();
  const declined = (error) => error?.code === 4001;

  function announce(id, name, provider) {
    if (typeof provider?.request !== "function" || wallets.size > 11) return;
    if (wallets.has(id) || [...wallets.values()].some((known) => known.provider === provider)) return;
    const wallet = (name.trim() || say("nameless")).slice(0, 40);
    wallets.set(id, { wallet, provider });
    if (data.signed) byId("wallets").append(button(say("sign", { wallet }), () => pay(provider, true)));
    if (data.transfer) {
      const key = data.signed ? "send_instead" : "send";
      byId("wallets").append(button(say(key, { wallet }), () => pay(provider, false), data.signed));
    }
    show("none", false);
  }

  function findWallets() {
    addEventListener("eip6963:announceProvider", ({ detail }) =>
      announce(String(detail?.info?.uuid ?? ""), String(detail?.info?.name ?? ""), detail?.provider));
    dispatchEvent(new Event("eip6963:requestProvider"));
    const injected = () => {
      if (!wallets.size) announce("injected", "", window.ethereum);
      show("none", !wallets.size);
    };
    addEventListener("ethereum#initialized", injected);
    setTimeout(injected, 500);
  }

  async function onOurChain(ask) {
    const isOurs = async () => Number(await ask("eth_chainId")) === data.network.id;
    if (await isOurs()) return true;
    tell("switching", {}, "", true);
    try {
      await ask("wallet_switchEthereumChain", [{ chainId: data.network.hex }]);
    } catch (error) {
      if (declined(error)) throw error;
      const unknown = [error?.code, error?.data?.originalError?.code].includes(4902);
      if (!unknown || !data.network.add) return false;
      await ask("wallet_addEthereumChain", [data.network.add]);
    }
    return isOurs();
  }

  // What the account has of the token, in base units; `null` where the wallet does not tell, or not soon.
  async function balance(ask, from) {
    const { token, balance: call } = data.money;
    const asked = ask("eth_call", [{ to: token, data: call + from.slice(2).padStart(64, "0") }, "latest"]);
    try {
      return BigInt(await Promise.race([asked, sleep(3)]));
    } catch {
      return null;
    }
  }

  const decimal = (units) => {
    const digits = String(units).padStart(data.money.decimals + 1, "0");
    const at = digits.length - data.money.decimals;
    return `${digits.slice(0, at)}.${digits.slice(at)}`.replace(/\.?0+$/, "");
  };

  async function signature(ask, from) {
    const { accepted, resource, timeout, typed } = data.signed;
    const message = { from, ...typed.message, validBefore: String(now() + timeout) };
    const signed = await ask("eth_signTypedData_v4", [from, JSON.stringify({ ...typed, message })]);
    const payment = { x402Version: 2, resource, accepted, payload: { signature: signed, authorization: message } };
    return btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(payment))));
  }

  let paying = false;
  async function pay(provider, bySignature) {
    if (paying) return;
    paying = true;
    for (const each of byId("wallets").querySelectorAll("button")) each.disabled = true;
    const paid = await during(paidBy((method, params) => provider.request({ method, params }), bySignature));
    paying = false;
    for (const each of byId("wallets").querySelectorAll("button")) each.disabled = false;
    if (paid) await redeem();
  }

  // Whether something was paid.
  async function paidBy(ask, bySignature) {
    const before = state;
    let mayBeSent = false;
    try {
      tell("confirm", {}, "", true);
      const [from] = await ask("eth_requestAccounts");
      if (!(await onOurChain(ask))) {
        tell("wrong_network", {}, "bad");
        return false;
      }
      const held = await balance(ask, from);
      if (held !== null && held < BigInt(data.money.amount)) {
        tell("short", { balance: decimal(held) }, "bad");
        return false;
      }
      tell("confirm", {}, "", true);
      if (bySignature) {
        const header = await signature(ask, from);
        save({ intent: data.intent, header });
        return true;
      }
      save({ intent: data.intent, asked: true });
      mayBeSent = true;
      const { to, data: call } = data.transfer;
      const hash = await ask("eth_sendTransaction", [{ from, to, value: "0x0", data: call, chainId: data.network.hex }]);
      save({ ...state, asked: false, sent: true, hash: String(hash).match(HASH)[0] });
      return true;
    } catch (error) {
      if (declined(error)) {
        restore(before);
        tell("declined");
      } else {
        tell(mayBeSent ? "wallet_failed" : "wallet_failed_early", {}, "bad");
      }
      return false;
    }
  }

  // ---- The payer signs the redemption, so that a stranger who sees the payment on the chain cannot take its answer.
  const provers = (message) => [...wallets.values()].map(({ wallet, provider }) =>
    button(say("prove", { wallet }), () => prove(provider, message), true));

  // As the seller builds it.
  const redemption = () => ["x402 redemption", `chain: eip155:${data.network.id}`,
    `transaction: ${state.hash.toLowerCase()}`, `intent: ${state.intent}`].join("\n");

  async function prove(provider, message) {
    newest += 1;
    const ask = (method, params) => provider.request({ method, params });
    try {
      tell("proving", {}, "", true);
      const [from] = await ask("eth_requestAccounts");
      const hex = [...new TextEncoder().encode(message)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
      const signed = await ask("personal_sign", [`0x${hex}`, from]);
      const { intent, secret } = state;
      save({ intent, secret, hash: message.match(HASH)[0], signed });
    } catch (error) {
      tell(declined(error) ? "declined" : "wallet_failed_early", {}, "bad");
      actions(again(), forget());
      return;
    }
    await redeem();
  }
