  // ---- What is shown.
  const show = (id, visible) => { if (byId(id)) byId(id).hidden = !visible; };
  const make = (name, members) => Object.assign(document.createElement(name), members);
  const write = (id, text) => { byId(id).textContent = text; };
  // What is said is "good" or "bad", or the visitor waits: "busy".
  const tellText = (text, kind = "") => {
    const busy = kind === "busy";
    byId("status").className = kind;
    write("status", text);
    show("busy", busy);
    document.title = ({ busy: "… ", good: "✓ ", bad: "! " }[kind] ?? "") + TITLE;
    began = busy ? began ?? Date.now() : null;
    tick();
  };
  const TITLE = document.title;
  // Since when the visitor waits.
  let began = null;
  function tick() {
    write("clock", began ? `${Math.round((Date.now() - began) / 1000)} s` : "");
  }
  setInterval(tick, 1000);
  const tell = (key, kind, values) => tellText(say(key, values), kind);
  const offer = (visible) => {
    const open = visible && now() < data.expiry;
    show("pay", open && (takes("signed") || takes("transfer")));
    show("else", open && data.chains[0].transfer);
    show("paid", visible && takes("transfer"));
    show("late", visible && !open);
    if (PASSES) show("passes", visible);
    show("terms", visible);
  };
  const button = (textContent, onclick, className = "") => make("button", { textContent, onclick, className });
  const link = (textContent, href, className = "") =>
    make("a", { textContent, href, className, rel: "noreferrer noopener", target: "_blank" });
  const actions = (...buttons) => byId("actions").replaceChildren(...buttons);
  const again = () => button(say("$again"), () => redeem());
  const reload = () => location.reload();
  const startOver = () => {
    setAside();
    reload();
  };
  const buyAgain = () => button(say("$buy_again"), startOver, "plain");

  // The field for a hash, wherever it was folded away.
  const askForHash = () => {
    show("paid", true);
    if (byId("paid")) byId("paid").open = true;
  };

  // Asks first, because the visitor may have to find the payment again.
  const forget = () => button(say("$forget"), () => {
    newest += 1;
    tell("$forget_asks");
    actions(button(say("$forget_it"), startOver),
      button(say("$go_on"), () => (state.hash || state.header ? redeem() : reload()), "plain"));
  }, "plain");

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
