  // ---- Redeeming.
  const proof = ({ header, intent, hash, secret, signed, chain }) => header ? { "payment-signature": header } : {
    "x402-payment": JSON.stringify({
      intentId: intent, txHash: hash, paymentSecret: secret ?? null, paymentSignature: signed ?? null,
      ...(chain && chain !== data.chains[0].id ? { chainId: chain } : {}),
    }),
  };
  // The header `x402-page` has a redirect that is sold told as a header, because it would lead the script away from the answer, and
  // a refusal in the visitor's language.
  const ask = (paid) => fetch(HERE, {
    headers: { accept: ACCEPT, "x402-page": "1", ...paid }, cache: "no-store", redirect: "manual",
  });
  // A part of the page that few visitors need.
  const part = (name) => ask({ "x402-page": name });
  const seconds = (response, otherwise) => {
    const asked = Number(response.headers.get("retry-after"));
    return asked > 0 ? Math.min(asked, 900) : otherwise;
  };
  const sleep = (time) => new Promise((resolve) => { setTimeout(resolve, time * 1000); });
  const PASSING = [408, 429, 502, 503, 504];
  // The payment may be bound to an intent of before.
  const BOUND = ["payment_bound", "payer_proof_required"];
  const MOST_ASKED = 5;
  // After that long, a transaction that the network does not know may never come.
  const PATIENCE = 30;

  // Only the newest counts.
  let newest = 0;
  async function redeem() {
    const mine = ++newest;
    const isOld = () => mine !== newest;
    const began = now();
    const tried = new Set([state.intent, state.secret]);
    offer(false);
    actions();
    show("paid", !state.header && !state.done);
    if (state.hash) byId("hash").value = state.hash;
    tell("$fetching", "busy");
    const wait = async (words, time) => {
      tellText(fill(words, { seconds: time }), "busy");
      await sleep(time);
    };
    for (let asked = 0, fresh = 0; ; asked += 1) {
      if (isOld()) return;
      const shown = state;
      let response;
      try {
        response = await during(ask(proof(shown)));
      } catch {
        if (!isOld()) await wait(say("$offline"), Math.min(3 + 2 * asked, 30));
        continue;
      }
      // A sale counts, whatever was begun meanwhile.
      if (isSale(response)) {
        await delivered(response, shown);
        return;
      }
      if (isOld()) return;
      const code = response.headers.get("x402-error");
      if (!code || code === "payment_required") {
        if (PASSING.includes(response.status) && asked < MOST_ASKED) {
          await wait(say("$later"), seconds(response, 2 + 2 * asked));
          continue;
        }
        await unsold(response);
        return;
      }
      const problem = await response.json().catch(() => ({}));
      if (isOld()) return;
      const intent = response.headers.get("x-price-intent");
      const secret = BOUND.includes(code) && !state.signed && secrets().find((one) => !tried.has(one));
      if (state.hash && intent && response.status !== 402 && fresh < 3) {
        // The same payment, under a new intent: the old one shows that it was made here.
        const old = state.intent;
        save({ ...state, intent, secret: state.secret ?? old, signed: null });
        if (state.secret === old) drop(old);
        tried.add(intent);
        fresh += 1;
      } else if (secret && state.hash) {
        tried.add(secret);
        save({ ...state, secret });
      } else if (response.headers.has("retry-after") || PASSING.includes(response.status)) {
        waitingActions(asked);
        await wait(waitsFor(code, began, problem.detail), seconds(response, 5));
      } else {
        refused(code, problem);
        return;
      }
    }
  }

  // What the visitor is told meanwhile: of the payment itself in the seller's words.
  const waitsFor = (code, began, told) => {
    const isUnknown = code === "tx_not_confirmed";
    if (isUnknown && state.hash && now() - began > PATIENCE) {
      askForHash();
      return say("$unknown");
    }
    return (isUnknown || code === "redemption_in_progress") && told || say("$later");
  };

  function waitingActions(asked) {
    if (!state.hash) return;
    const provable = state.sent || state.signed || state.done ? [] : provers(redemption());
    const { explorer } = chainOf(state.chain);
    const site = explorer ? [link(say("$explorer"), `${explorer}/tx/${state.hash}`)] : [];
    actions(...provable, ...site, ...(asked > 2 ? [forget()] : []));
  }

  function refused(code, problem) {
    const reason = typeof problem.reason === "string" ? problem.reason : code;
    const amounts = { paid: amount(problem.paid), required: amount(problem.required) };
    const words = fill(String(problem.detail ?? ""), amounts);
    if (state.done) {
      // It was delivered before, and is not kept any more. What arrived of it stays.
      if (code === "already_consumed") drop(state.intent);
      tellText(words);
      actions(buyAgain());
      return;
    }
    const contact = data.contact ? ` ${say("$contact")} ${data.contact}` : "";
    tellText(`${words} (${reason})${contact}`, "bad");
    if (code === "authorization_refused") {
      // Certainly not used: the next one is signed for a new quote.
      setAside();
      actions(button(say("$renew"), reload));
      return;
    }
    askForHash();
    const told = typeof problem.message === "string" && HASH.test(problem.message) ? problem.message : "";
    const message = told || (code === "tx_already_used" && state.hash ? redemption() : "");
    actions(...(message ? provers(message) : []), ...(state.header ? [again()] : []), forget());
  }

  const amount = (units) => /^\d{1,78}$/.test(units ?? "") ? `${decimal(BigInt(units))} ${data.words.symbol}` : "";

  // A reply that sells nothing: the service's own, or that of something in between.
  async function unsold(response) {
    const status = response.status || 302;
    tell(response.ok ? "$no_receipt" : "$unsold", "bad", { status });
    actions(again(), forget());
    write("answer-title", say("$reply"));
    byId("receipt").replaceChildren();
    const [mine, reply] = [newest, about(response)];
    const [{ bytes }, read] = await Promise.all([receive(response, () => {}), loadReader(reply.type)]);
    // An answer that came meanwhile stays.
    if (mine === newest && bytes.length) display(reply, bytes, read);
  }
