"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const HASH = /0x[0-9a-f]{64}(?![0-9a-f])/i;
  const ACCEPT = "text/html,application/xhtml+xml,application/json;q=0.9,*/*;q=0.8";
  const WEEK = 7 * 24 * 60 * 60;

  // By the seller's clock.
  const skew = data.issued - Date.now() / 1000;
  const now = () => Math.floor(Date.now() / 1000 + skew);
  const say = (key, values) => (data.texts[key] ?? "")
    .replace(/\{(\w+)\}/g, (all, name) => ({ ...data.words, ...values })[name] ?? all);

  // ---- What is remembered: the intent, and what was paid for it, until the answer is here. This tab's own memory comes first;
  // a payment that may have been sent is also kept where a closed tab does not take it along.
  const KEY = `x402 ${location.origin}${location.pathname}${location.search}`;
  const put = (store, value) => {
    try {
      if (value) window[store].setItem(KEY, JSON.stringify(value));
      else window[store].removeItem(KEY);
    } catch {}
  };
  const get = (store) => {
    try {
      const value = JSON.parse(window[store].getItem(KEY));
      return value && typeof value.intent === "string" && value.at > now() - WEEK ? value : null;
    } catch {
      return null;
    }
  };
  let state = get("sessionStorage") ?? get("localStorage");
  const save = (value) => {
    state = value && { ...value, at: value.at ?? now() };
    put("sessionStorage", state);
    put("localStorage", state?.done ? null : state);
  };
  // A payment whose fate is not known may be tagged with an intent of before.
  const former = () => [...(state?.former ?? []), ...(state && !state.done ? [state.intent] : [])].slice(-9);

  // ---- What is shown.
  const show = (id, visible) => { if (byId(id)) byId(id).hidden = !visible; };
  const tellText = (text, kind, busy) => {
    byId("status").className = kind;
    byId("status").textContent = text;
    show("bar", busy);
  };
  const tell = (key, values, kind = "", busy = false) => tellText(say(key, values), kind, busy);
  const offer = (visible) => {
    const open = visible && now() < data.expiry;
    show("pay", open && (data.signed || data.transfer));
    show("else", open && data.transfer);
    show("late", visible && !open);
    show("terms", visible);
  };
  const button = (text, act, plain) => {
    const made = document.createElement("button");
    made.type = "button";
    made.className = plain ? "plain" : "";
    made.textContent = text;
    made.addEventListener("click", act);
    return made;
  };
  const actions = (...buttons) => byId("actions").replaceChildren(...buttons);
  const forget = () => button(say("forget"), () => { save(null); location.reload(); }, true);
  const again = () => button(say("again"), () => redeem());

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
    const paid = await paidBy((method, params) => provider.request({ method, params }), bySignature);
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
      tell("confirm", {}, "", true);
      if (bySignature) {
        const header = await signature(ask, from);
        save({ intent: data.intent, header, former: former() });
        return true;
      }
      save({ intent: data.intent, asked: true, former: former() });
      mayBeSent = true;
      const { to, data: call } = data.transfer;
      const hash = await ask("eth_sendTransaction", [{ from, to, value: "0x0", data: call, chainId: data.network.hex }]);
      save({ ...state, asked: false, hash: String(hash).match(HASH)[0] });
      return true;
    } catch (error) {
      if (declined(error)) {
        save(before);
        tell("declined");
      } else {
        tell(mayBeSent ? "wallet_failed" : "wallet_failed_early", {}, "bad");
      }
      return false;
    }
  }

  // ---- Redeeming.
  const proof = ({ header, intent, hash, secret, signed }) => header ? { "payment-signature": header } : {
    "x402-payment": JSON.stringify({
      intentId: intent, txHash: hash, paymentSecret: secret ?? null, paymentSignature: signed ?? null,
    }),
  };
  const seconds = (response, otherwise) => {
    const asked = Number(response.headers.get("retry-after"));
    return asked > 0 ? Math.min(asked, 900) : otherwise;
  };
  const sleep = (time) => new Promise((resolve) => { setTimeout(resolve, time * 1000); });

  // Only the newest counts.
  let newest = 0;
  async function redeem() {
    const mine = ++newest;
    const isOld = () => mine !== newest;
    offer(false);
    actions();
    show("form", !state.header && !state.done);
    if (state.hash) byId("hash").value = state.hash;
    tell("fetching", {}, "", true);
    for (let asked = 0, fresh = 0; ; asked += 1) {
      let response, body;
      try {
        const headers = { accept: ACCEPT, ...proof(state) };
        response = await fetch(location.pathname + location.search, { headers, cache: "no-store" });
        body = await response.blob();
      } catch {
        if (isOld()) return;
        const time = Math.min(3 + 2 * asked, 30);
        tell("offline", { seconds: time }, "", true);
        await sleep(time);
        if (isOld()) return;
        continue;
      }
      if (isOld()) return;
      const code = response.headers.get("x402-error");
      if (!code) {
        await (response.ok ? delivered(response, body) : unsold(response, body));
        return;
      }
      const problem = await body.text().then(JSON.parse).catch(() => ({}));
      if (isOld()) return;
      const intent = response.headers.get("x-price-intent");
      if (state.hash && intent && response.status !== 402 && fresh < 3) {
        // The same payment, under a new intent: the old one shows that it was made here.
        save({ ...state, intent, secret: state.secret ?? state.intent });
        fresh += 1;
      } else if (code === "payment_bound" && state.former?.length) {
        save({ ...state, secret: state.former.at(-1), former: state.former.slice(0, -1) });
      } else if (response.headers.has("retry-after") || [408, 502, 503, 504].includes(response.status)) {
        const time = seconds(response, 5);
        const waits = code === "tx_not_confirmed" || code === "redemption_in_progress";
        tell(waits ? "waiting" : "later", { seconds: time }, "", true);
        if (asked > 2 && state.hash) actions(forget());
        await sleep(time);
        if (isOld()) return;
      } else {
        refused(code, problem);
        return;
      }
    }
  }

  function refused(code, problem) {
    const words = data.texts[`error.${code}`] ?? problem.detail ?? "";
    const reason = typeof problem.reason === "string" ? problem.reason : code;
    if (state.done) {
      // It was delivered before, and is not kept any more.
      save(null);
      offer(true);
      show("form", true);
      tell(`error.${code}`);
      return;
    }
    tellText(`${words} (${reason})`, "bad", false);
    if (code === "authorization_refused") {
      // Certainly not used: the next one is signed for a new quote.
      save(null);
      actions(button(say("renew"), () => location.reload()));
      return;
    }
    show("form", true);
    const message = typeof problem.message === "string" ? problem.message : "";
    const proving = message && [...wallets.values()].map(({ wallet, provider }) =>
      button(say("prove", { wallet }), () => prove(provider, message)));
    actions(...(proving || []), ...(state.header ? [again()] : []), forget());
  }

  // The payer signs the redemption.
  async function prove(provider, message) {
    const ask = (method, params) => provider.request({ method, params });
    try {
      tell("proving", {}, "", true);
      const [from] = await ask("eth_requestAccounts");
      const hex = [...new TextEncoder().encode(message)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
      save({ ...state, signed: await ask("personal_sign", [`0x${hex}`, from]) });
    } catch (error) {
      tell(declined(error) ? "declined" : "wallet_failed_early", {}, "bad");
      return;
    }
    await redeem();
  }

  // ---- The answer.
  const taken = (response) => {
    try {
      return JSON.parse(atob(response.headers.get("payment-response")));
    } catch {
      return {};
    }
  };

  async function delivered(response, body) {
    save({ ...state, done: true });
    tell("paid", {}, "good");
    show("form", false);
    actions();
    const { transaction } = taken(response);
    byId("receipt").textContent = transaction ? say("paid_by", { hash: transaction }) : "";
    await display(response, body);
    byId("answer").focus();
  }

  // The service's own answer, which costs nothing.
  async function unsold(response, body) {
    tell("unsold", { status: response.status }, "bad");
    actions(again(), forget());
    await display(response, body);
  }

  async function display(response, body) {
    const type = (response.headers.get("content-type") ?? "").split(";")[0].trim().toLowerCase();
    const view = byId("shown");
    view.replaceChildren();
    const text = body.size < 2e6 && /^text\/|[/+](json|xml)$/.test(type) ? await body.text() : null;
    if (type === "text/html" && text !== null) {
      // Browsers complain of styles that are not taken over, even where nobody sees them.
      const markup = text.replace(/<style[\s\S]*?<\/style>/gi, "");
      copyMarkup(new DOMParser().parseFromString(markup, "text/html").body, view);
    } else if (text !== null) {
      const pre = document.createElement("pre");
      pre.textContent = /json$/.test(type) ? indented(text) : text;
      view.append(pre);
    } else if (/^image\//.test(type)) {
      const image = new Image();
      image.alt = say("answer");
      image.src = URL.createObjectURL(body);
      view.append(image);
    } else {
      view.textContent = say("file");
    }
    const link = byId("download");
    link.href = URL.createObjectURL(body);
    link.download = fileName(response, type);
    show("answer", true);
  }

  const indented = (text) => {
    try {
      // Numbers that script cannot hold stay as they are.
      return /\d{16}/.test(text) ? text : JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      return text;
    }
  };

  function fileName(response, type) {
    const named = /filename="?([^";]+)/i.exec(response.headers.get("content-disposition") ?? "")?.[1];
    const path = location.pathname.split("/").pop() || "answer";
    const ending = { "text/plain": ".txt", "text/markdown": ".md", "image/svg+xml": ".svg" }[type];
    const name = named ?? (path.includes(".") ? path : path + (ending ?? `.${type.split(/[/+]/).pop() || "bin"}`));
    return name.replace(/[^\w.() -]/g, "_").slice(-80);
  }

  // Of a page only what people read is taken over: no scripts, styles, pictures or forms.
  const READ = new Set(("a abbr b blockquote br caption cite code dd del details dfn div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr " +
    "i ins kbd li mark ol p pre q s samp section small span strong sub summary sup table tbody td tfoot th thead tr u ul var").split(" "));
  const LEFT_OUT = new Set(("button datalist embed form head iframe input link math meta noscript object option script select " +
    "slot style svg template textarea title").split(" "));

  function copyMarkup(from, to) {
    for (const node of from.childNodes) {
      if (node.nodeType === Node.TEXT_NODE) {
        to.append(node.data);
      } else if (node.nodeType === Node.ELEMENT_NODE && !LEFT_OUT.has(node.localName)) {
        const made = READ.has(node.localName) ? document.createElement(node.localName) : to;
        if (node.localName === "a" && /^https?:\/\//i.test(node.getAttribute("href") ?? "")) {
          made.href = node.getAttribute("href");
          made.rel = "noreferrer noopener";
          made.target = "_blank";
        }
        for (const name of ["colspan", "rowspan", "start", "scope"]) {
          const value = node.getAttribute(name);
          if (made !== to && /^\w{1,9}$/.test(value ?? "")) made.setAttribute(name, value);
        }
        copyMarkup(node, made);
        if (made !== to) to.append(made);
      }
    }
  }

  // ---- The rest of the page.
  function count() {
    const left = data.expiry - now();
    const two = (number) => String(number).padStart(2, "0");
    const hours = Math.floor(left / 3600);
    const time = `${hours > 0 ? `${hours}:` : ""}${two(Math.floor(left / 60) % 60)}:${two(left % 60)}`;
    byId("left").textContent = left > 0 ? say("left", { time }) : "";
    if (left > 0) setTimeout(count, 1000);
    else if (!state || state.asked) offer(true);
  }

  async function copy({ currentTarget: pressed }) {
    const source = byId(pressed.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {
      getSelection().selectAllChildren(source);
      document.execCommand("copy");
    }
    pressed.textContent = say("copied");
    byId("said").textContent = say("copied");
    setTimeout(() => {
      pressed.textContent = say("copy");
      byId("said").textContent = "";
    }, 2000);
  }

  // What is typed may be an address with a hash in it: it is looked at here.
  if (byId("form")) byId("form").noValidate = true;
  byId("form")?.addEventListener("submit", (event) => {
    event.preventDefault();
    const field = byId("hash");
    const hash = field.value.match(HASH)?.[0];
    field.setAttribute("aria-invalid", String(!hash));
    if (!hash) {
      tell("no_hash", {}, "bad");
      field.focus();
      return;
    }
    if (state?.hash !== hash) {
      const { intent, former } = state && !state.done ? state : { intent: data.intent };
      save({ intent, hash, former });
    }
    redeem();
  });
  for (const each of document.querySelectorAll("[data-copy]")) {
    each.hidden = false;
    each.addEventListener("click", copy);
  }
  byId("renew").addEventListener("click", () => location.reload());
  show("static", false);
  show("needed", false);
  findWallets();
  count();
  if (state?.hash || state?.header) {
    redeem();
  } else {
    offer(true);
    if (state?.asked) tell("began");
  }
})();
