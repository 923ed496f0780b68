  // ---- What is remembered of each payment, in a record of its own: by address and intent, so that tabs do not overwrite each
  // other. This tab's record is in its sessionStorage, its last answer too; records are in localStorage until the whole answer is here.
  const HERE = location.origin + location.pathname + location.search;
  const TAB = `x402 ${HERE}`;
  const ANSWER = `x402-answer ${HERE}`;
  const WEEK = 7 * 24 * 60 * 60;
  const LARGEST_KEPT = 300_000;

  const put = (store, key, value) => {
    try {
      if (value) window[store].setItem(key, JSON.stringify(value));
      else window[store].removeItem(key);
      return true;
    } catch {
      return false;
    }
  };
  const get = (store, key) => {
    try {
      const value = JSON.parse(window[store].getItem(key));
      return value && typeof value.intent === "string" && value.at > now() - WEEK ? value : null;
    } catch {
      return null;
    }
  };
  const keyOf = (intent) => `${TAB} ${intent}`;
  const drop = (intent) => put("localStorage", keyOf(intent), null);

  // The records of this address, the newest first. Those that are too old are removed.
  function records() {
    let keys = [];
    try {
      keys = Object.keys(localStorage).filter((key) => key.startsWith(`${TAB} `));
    } catch {}
    const found = keys.map((key) => get("localStorage", key) ?? put("localStorage", key, null));
    return found.filter((record) => record.at).sort((one, other) => other.at - one.at);
  }

  // A payment that was shown comes before one that was only begun.
  function unfinished() {
    const open = records().filter((record) => !record.over);
    return open.find((record) => record.hash || record.header) ?? open[0] ?? null;
  }

  let state = get("sessionStorage", TAB) ?? unfinished();
  // A pass paid, and nothing is to be redeemed.
  const byPass = () => PASSES && state?.byPass !== undefined;
  // What is `done` was sold. Until all of it is here, another tab asks for it again.
  const save = (value) => {
    state = value && { ...value, at: value.at ?? now() };
    put("sessionStorage", TAB, state);
    if (state && !byPass()) put("localStorage", keyOf(state.intent), state);
  };

  // Back to what was before: nothing was sent since.
  const restore = (before) => {
    if (state && state.intent !== before?.intent) drop(state.intent);
    save(before);
  };

  // The page no longer asks about this payment. Unless it is done, its intent stays: a payment that turns up is bound to it.
  const setAside = () => {
    if (state) put("localStorage", keyOf(state.intent), state.done ? null : { intent: state.intent, at: state.at, over: true });
    put("sessionStorage", ANSWER, null);
    state = null;
    put("sessionStorage", TAB, null);
  };

  // What a payment that is bound to another intent may be bound to.
  const secrets = () => records().map((record) => record.intent).slice(0, 20);

  const base64 = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));

  // ---- The answer of this tab, if it is small.
  async function keepAnswer(answer, bytes) {
    put("sessionStorage", ANSWER, null);
    if (bytes.length > LARGEST_KEPT) return;
    put("sessionStorage", ANSWER, { ...answer, intent: state.intent, at: now(), bytes: base64(bytes) });
  }

  function keptAnswer() {
    const kept = get("sessionStorage", ANSWER);
    if (!kept || kept.intent !== state?.intent) return null;
    return { answer: kept, bytes: Uint8Array.from(atob(kept.bytes), (char) => char.charCodeAt(0)) };
  }
