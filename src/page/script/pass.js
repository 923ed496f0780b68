  // ---- Passes: paid for once, kept for this shop, and shown by themselves. PASSES is false where none count and none are sold.
  const passKey = (name) => `x402-pass ${name}`;

  // What is kept, and neither over nor refused.
  function passOf(name) {
    try {
      const { pass, left, expires, refused } = JSON.parse(localStorage.getItem(passKey(name)));
      return PASS.test(pass) && !refused && !(expires <= now() && expires) ? { name, pass, left, expires } : null;
    } catch {
      return null;
    }
  }
  const PASS = /^x402p_[\w-]{1,200}$/;
  const passes = () => data.passes.map(passOf).filter((each) => each);

  // What a counter sold.
  function keepPass(bytes) {
    try {
      const { pass, calls, worth, expires } = JSON.parse(new TextDecoder().decode(bytes));
      if (!PASS.test(pass) || !put("localStorage", passKey(data.sells), { pass, left: calls ?? worth ?? undefined, expires })) return;
    } catch {
      return;
    }
    tell("pass_kept", {}, "good");
    const asked = backTo();
    if (asked) actions(button(say("use_pass"), () => location.assign(asked)), buyAgain());
  }

  // The page from which the visitor came to buy one.
  const BACK = "x402-back";
  const backTo = () => {
    const path = get("sessionStorage", BACK)?.path ?? "";
    return /^\/(?!\/)/.test(path) ? path : null;
  };
  if (PASSES) for (const each of document.querySelectorAll("#passes a")) {
    each.addEventListener("click", () =>
      put("sessionStorage", BACK, { intent: "", at: now(), path: location.pathname + location.search }));
  }

  async function callByPass(held) {
    const mine = ++newest;
    const isOld = () => mine !== newest;
    offer(false);
    tell("shows_pass", {}, "", true);
    for (let asked = 0; asked < MOST_ASKED; asked += 1) {
      const response = await during(fetch(HERE, {
        headers: { accept: ACCEPT, "x402-page": "1", "x402-pass": held.pass }, cache: "no-store", redirect: "manual",
      })).catch(() => null);
      const code = response?.headers.get("x402-error");
      if (response && !code) {
        const left = response.headers.get("x402-pass-remaining");
        if (left) put("localStorage", passKey(held.name), left === "0" ? null : { ...held, left });
        // A pass that is counted says what is left: without that, the reply may be that of something in between.
        if ((response.ok || response.headers.has("x402-location")) && (left || held.left === undefined)) {
          await delivered(response, { intent: data.intent, byPass: left ?? "" });
        } else if (!isOld()) {
          tell("unsold", { status: response.status || 302 }, "bad");
          actions(button(say("again"), () => callByPass(held)));
        }
        return;
      }
      if (isOld()) return;
      if (["invalid_pass", "payment_required"].includes(code)) {
        // Used up or over. One that is refused is kept, unused: it may be the seller's mistake, and it was paid for.
        put("localStorage", passKey(held.name), code === "invalid_pass" ? { ...held, refused: true } : null);
        begin();
        return;
      }
      const time = response ? seconds(response, 5) : 5;
      tell(response ? "later" : "offline", { seconds: time }, "", true);
      await sleep(time);
    }
    offer(true);
  }
