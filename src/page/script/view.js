  // ---- What is shown.
  const show = (id, visible) => { if (byId(id)) byId(id).hidden = !visible; };
  const tellText = (text, kind, busy) => {
    byId("status").className = kind;
    byId("status").textContent = text;
    show("busy", busy);
    document.title = `${busy ? "… " : { good: "✓ ", bad: "! " }[kind] ?? ""}${TITLE}`;
    began = busy ? began ?? Date.now() : null;
    tick();
  };
  const TITLE = document.title;
  // Since when the visitor waits.
  let began = null;
  function tick() {
    byId("clock").textContent = began ? `${Math.round((Date.now() - began) / 1000)} s` : "";
  }
  setInterval(tick, 1000);
  const tell = (key, values, kind = "", busy = false) => tellText(say(key, values), kind, busy);
  const offer = (visible) => {
    const open = visible && now() < data.expiry;
    show("pay", open && (takes("signed") || takes("transfer")));
    show("else", open && data.chains[0].transfer);
    show("paid", visible && takes("transfer"));
    show("late", visible && !open);
    if (PASSES) show("passes", visible);
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
  const link = (text, href) => {
    const made = document.createElement("a");
    made.href = href;
    made.rel = "noreferrer noopener";
    made.target = "_blank";
    made.textContent = text;
    return made;
  };
  const explorer = (hash) => {
    const { explorer: site } = chainOf(state?.chain);
    return HASH.test(hash ?? "") && site ? [link(say("explorer"), site + hash)] : [];
  };
  const actions = (...buttons) => byId("actions").replaceChildren(...buttons);
  const again = () => button(say("again"), () => redeem());
  const buyAgain = () => button(say("buy_again"), () => {
    setAside();
    location.reload();
  }, true);

  // The field for a hash, wherever it was folded away.
  const askForHash = () => {
    show("paid", true);
    if (byId("paid")) byId("paid").open = true;
  };

  // Asks first, because the visitor may have to find the payment again.
  const forget = () => button(say("forget"), () => {
    newest += 1;
    tell("forget_asks");
    actions(button(say("forget_it"), () => {
      setAside();
      location.reload();
    }), button(say("go_on"), () => (state.hash || state.header ? redeem() : location.reload()), true));
  }, true);

  // Leaving now may lose the sight of something that cannot be shown again.
  let inFlight = 0;
  addEventListener("beforeunload", (event) => { if (inFlight) event.preventDefault(); });
  async function during(work) {
    inFlight += 1;
    try {
      return await work;
    } finally {
      inFlight -= 1;
    }
  }
