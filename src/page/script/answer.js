  // ---- The answer. READERS is false where the seller says that it is JSON: then other text is shown as it is.
  const MARKUP = /^text\/(html|markdown|csv)$/;

  // The readers of markup are a script of their own, and the policy names its hash: it is asked for once such an answer comes.
  // Without it, or where it takes too long, the answer is shown as text.
  async function loadReader(type) {
    if (!READERS || !MARKUP.test(type)) return null;
    const asked = part("readers")
      .then((response) => /javascript/.test(response.headers.get("content-type")) ? response.text() : "");
    const made = make("script", { textContent: await Promise.race([asked, sleep(5)]).catch(() => "") });
    document.head.append(made);
    return made.read;
  }

  const taken = (response) => {
    try {
      return JSON.parse(atob(response.headers.get("payment-response"))) ?? {};
    } catch {
      return {};
    }
  };
  // A payment that was refused, may be made or has bought nothing is told in the same header.
  const isSale = (response) => taken(response).success === true;

  // What its head says of it.
  const about = (response) => {
    const media = (response.headers.get("content-type") ?? "").toLowerCase();
    const type = media.split(";")[0].trim();
    const { transaction, payer } = taken(response);
    return {
      type,
      charset: /;\s*charset="?([\w-]+)/.exec(media)?.[1] ?? "utf-8",
      name: fileName(response, type),
      transaction,
      payer,
      at: Date.now(),
      moved: response.headers.get("x402-location"),
    };
  };

  async function delivered(response, paid) {
    newest += 1;
    save({ ...paid, done: true });
    if (paid.secret) drop(paid.secret);
    const answer = about(response);
    offer(false);
    show("paid", false);
    actions();
    if (!byPass()) tell("$receiving", "busy");
    title(answer);
    const live = liveText(answer);
    const reader = loadReader(answer.type);
    const { bytes, whole } = await during(receive(response, live));
    if (whole) {
      await keepAnswer(answer, bytes);
      drop(paid.intent);
    }
    display(answer, bytes, await reader);
    tell(whole ? outcome() : byPass() ? "$pass_unsure" : "$cut", whole ? "good" : "bad");
    actions(...(whole || byPass() ? [] : [again()]), buyAgain());
    if (PASSES && whole && data.sells) keepPass(bytes);
    byId("answer").focus();
  }

  const outcome = () => byPass() ? "$by_pass" : "$paid";

  function title({ transaction, payer, at }) {
    write("answer-title", say("$answer"));
    document.querySelector("main").classList.add("sold");
    const { name: network, explorer: site } = chainOf(state?.chain);
    const lines = [
      ["$seller", location.host],
      ["$item", data.label],
      byPass()
        ? ["$on_pass", state.byPass]
        : ["$amount", `${data.words.price} ${data.words.symbol} ${say("$on", { network })}`],
      ["$date", new Date(at).toLocaleString(document.documentElement.lang)],
      ["$payer", payer],
      ["$transaction", transaction && site ? link(transaction, `${site}/tx/${transaction}`) : transaction],
    ];
    byId("receipt").replaceChildren(...lines.filter(([, value]) => value).flatMap(([key, value]) => {
      const told = make("dd");
      told.append(value);
      return [make("dt", { textContent: say(key) }), told];
    }));
  }

  // What arrives, until its end or until the connection breaks.
  async function receive(response, arrived) {
    const chunks = [];
    let whole = true;
    try {
      const reader = response.body?.getReader();
      for (let next; reader && !(next = await reader.read()).done;) {
        chunks.push(next.value);
        arrived(next.value);
      }
    } catch {
      whole = false;
    }
    return { bytes: new Uint8Array(await new Blob(chunks).arrayBuffer()), whole };
  }

  const isText = (type) => /^text\/|[/+](json|xml)$/.test(type);
  const decoder = (charset) => {
    try {
      return new TextDecoder(charset);
    } catch {
      return new TextDecoder();
    }
  };

  // Shows text as it arrives; markup has to be whole.
  function liveText({ type, charset }) {
    if (!isText(type) || READERS && type === "text/html") return () => {};
    const decode = decoder(charset);
    const pre = make("pre");
    byId("shown").replaceChildren(pre);
    show("saved", false);
    return (bytes) => {
      pre.append(decode.decode(bytes, { stream: true }));
      show("answer", true);
    };
  }

  function display({ type, charset, name, moved }, bytes, read) {
    const view = byId("shown");
    const href = URL.createObjectURL(new Blob([bytes], { type }));
    const text = isText(type) && bytes.length < 2e6 ? decoder(charset).decode(bytes) : null;
    view.replaceChildren();
    view.dir = "auto";
    const elsewhere = moved && target(moved);
    if (elsewhere) {
      view.append(link(say("$moved"), elsewhere));
    } else if (READERS && read && text !== null && (type !== "text/markdown" || bytes.length < 3e5)) {
      read(type, text, view, make, link);
    } else if (text !== null) {
      view.append(make("pre", { textContent: /json$/.test(type) ? indented(text) : text }));
    } else if (/^image\//.test(type)) {
      view.append(make("img", { alt: say("$answer"), src: href }));
    } else {
      view.textContent = say("$file");
    }
    show("saved", !elsewhere);
    show("copy-answer", text !== null && !elsewhere);
    byId("copy-answer").onclick = () => copy(byId("copy-answer"), text, view);
    Object.assign(byId("download"), { href, download: name });
    show("answer", true);
  }

  const target = (address) => {
    try {
      const { protocol, href } = new URL(address, HERE);
      return /^https?:$/.test(protocol) ? href : null;
    } catch {
      return null;
    }
  };

  // JSON with line breaks between its tokens, which stay as they were sold.
  function indented(text) {
    try {
      JSON.parse(text);
    } catch {
      return text;
    }
    let depth = 0;
    const line = (by) => `\n${"  ".repeat(Math.min(depth += by, 40))}`;
    return text.replace(/"[^"\\]*(?:\\.[^"\\]*)*"|[{[]\s*[}\]]|[{}[\],:]|\s+/g, (token) => {
      if (token[0] === "\"") return token;
      if (/^\s/.test(token)) return "";
      if (token.length > 1) return token[0] + token.at(-1);
      if (token === ",") return token + line(0);
      if (token === ":") return ": ";
      return "{[".includes(token) ? token + line(1) : line(-1) + token;
    });
  }

  function fileName(response, type) {
    const named = /filename="?([^";]+)/i.exec(response.headers.get("content-disposition") ?? "")?.[1];
    const path = location.pathname.split("/").pop() || "answer";
    const ending = { "text/plain": ".txt", "text/markdown": ".md", "image/svg+xml": ".svg" }[type];
    const name = named ?? (path.includes(".") ? path : path + (ending ?? `.${type.split(/[/+]/).pop() || "bin"}`));
    return name.replace(/[^\w.() -]/g, "_").slice(-80);
  }
