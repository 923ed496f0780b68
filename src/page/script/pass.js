  // ---- Passes: paid for once, and kept for this shop. PASSES is false where none count and none are sold.
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
    tell("$pass_kept", "good");
    const asked = backTo();
    if (asked) actions(button(say("$use_pass"), () => location.assign(asked)), buyAgain());
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

  // A visitor who comes from this shop, or back from buying a pass, wants the answer. Anyone can write a link, and a page that is loaded
  // anew may have shown the pass before: there a button shows it.
  const comesFromHere = () => {
    const isBack = backTo() === location.pathname + location.search;
    if (isBack) put("sessionStorage", BACK, null);
    const [{ type }] = performance.getEntriesByType("navigation");
    return type === "navigate" && (isBack || document.referrer.startsWith(`${location.origin}/`));
  };

  // Each call may be charged. So only what the seller says is repeated: without its word, the visitor asks again.
  async function callByPass(held) {
    const mine = ++newest;
    const isOld = () => mine !== newest;
    offer(false);
    actions();
    tell("$shows_pass", "busy");
    for (let asked = 0; ; asked += 1) {
      const response = await during(ask({ "x402-pass": held.pass })).catch(() => null);
      const code = response?.headers.get("x402-error");
      const left = response?.headers.get("x402-pass-remaining");
      if (left) put("localStorage", passKey(held.name), left === "0" ? null : { ...held, left });
      // A pass that is counted says what is left: without that, the reply may be that of something in between.
      const isAnswer = !code && (response?.ok || response?.headers.has("x402-location"));
      if (isAnswer && (left || held.left === undefined)) {
        await delivered(response, { intent: data.intent, byPass: left ?? "" });
        return;
      }
      if (isOld()) return;
      if (["invalid_pass", "payment_required"].includes(code)) {
        // Used up or over. One that is refused is kept, unused: it may be the seller's mistake, and it was paid for.
        put("localStorage", passKey(held.name), code === "invalid_pass" ? { ...held, refused: true } : null);
        begin();
        return;
      }
      const isUnsure = !response || code === "outcome_unknown" || !code && PASSING.includes(response.status);
      if (isUnsure || !code || !response.headers.has("retry-after") || asked === MOST_ASKED) {
        tell(isUnsure ? "$pass_unsure" : "$unsold", "bad", { status: response?.status || 302 });
        actions(useButton("$again", held));
        return;
      }
      const time = seconds(response, 5);
      tell("$later", "busy", { seconds: time });
      await sleep(time);
    }
  }

  const useButton = (words, held) => button(say(words), () => callByPass(held));
