  // ---- The answer.
  const taken = (response) => {
    try {
      return JSON.parse(atob(response.headers.get("payment-response")));
    } catch {
      return {};
    }
  };

  // What its head says of it.
  const about = (response) => {
    const [type, ...parameters] = (response.headers.get("content-type") ?? "").split(";").map((part) => part.trim());
    const charset = parameters.map((each) => /^charset="?([\w-]+)/i.exec(each)?.[1]).find((each) => each);
    return {
      type: type.toLowerCase(),
      charset: charset ?? "utf-8",
      name: fileName(response, type.toLowerCase()),
      transaction: String(taken(response).transaction ?? ""),
      payer: String(taken(response).payer ?? ""),
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
    if (state.byPass === undefined) tell("receiving", {}, "", true);
    title(answer);
    const live = liveText(answer);
    const { bytes, whole } = await during(receive(response, live));
    display(answer, bytes);
    tell(whole ? outcome() : "cut", {}, whole ? "good" : "bad");
    actions(...(whole || outcome() === "by_pass" ? [] : [again()]), buyAgain());
    if (whole) await keepAnswer(answer, bytes);
    if (PASSES && whole && data.sells) keepPass(bytes);
    byId("answer").focus();
  }

  const outcome = () => state.byPass === undefined ? "paid" : "by_pass";

  function title({ transaction, payer, at }) {
    byId("answer-title").textContent = say("answer");
    document.querySelector("main").classList.add("sold");
    const lines = {
      seller: location.host,
      item: data.label,
      ...state?.byPass === undefined
        ? { amount: `${data.words.price} ${data.words.symbol} ${say("on", { network: chainOf(state?.chain).name })}` }
        : { on_pass: state.byPass },
      date: new Date(at).toLocaleString(document.documentElement.lang),
      payer,
      transaction,
    };
    byId("receipt").replaceChildren(...Object.entries(lines).filter(([, value]) => value).flatMap(([key, value]) => {
      const [name, told] = [document.createElement("dt"), document.createElement("dd")];
      name.textContent = say(key);
      const site = key === "transaction" && chainOf(state?.chain).explorer;
      told.append(site ? link(value, site + value) : value);
      return [name, told];
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
    if (!isText(type) || type === "text/html") return () => {};
    const decode = decoder(charset);
    const pre = document.createElement("pre");
    byId("shown").replaceChildren(pre);
    show("saved", false);
    return (bytes) => {
      pre.append(decode.decode(bytes, { stream: true }));
      show("answer", true);
    };
  }

  function display({ type, charset, name, moved }, bytes) {
    const view = byId("shown");
    const blob = new Blob([bytes], { type });
    const text = isText(type) && bytes.length < 2e6 ? decoder(charset).decode(bytes) : null;
    view.replaceChildren();
    view.dir = "auto";
    const elsewhere = moved && target(moved);
    if (elsewhere) {
      view.append(link(say("moved"), elsewhere));
    } else if (text !== null && type === "text/html") {
      // Browsers complain of ignored styles, even if they are invisible.
      const markup = text.replace(/<style[\s\S]*?<\/style>/gi, "");
      copyMarkup(new DOMParser().parseFromString(markup, "text/html").body, view);
    } else if (text !== null && type === "text/markdown" && bytes.length < 3e5) {
      markdown(text.split(/\r?\n/), view);
    } else if (text !== null && type === "text/csv") {
      view.append(table(text));
    } else if (text !== null) {
      const pre = document.createElement("pre");
      pre.textContent = /json$/.test(type) ? indented(text) : text;
      view.append(pre);
    } else if (/^image\//.test(type)) {
      const image = new Image();
      image.alt = say("answer");
      image.src = URL.createObjectURL(blob);
      view.append(image);
    } else {
      view.textContent = say("file");
    }
    show("saved", !elsewhere);
    show("copy-answer", text !== null && !elsewhere);
    byId("copy-answer").onclick = async () => {
      await navigator.clipboard.writeText(text).catch(() => {});
      byId("said").textContent = byId("copy-answer").textContent = say("copied");
    };
    byId("download").href = URL.createObjectURL(blob);
    byId("download").download = name;
    show("answer", true);
  }

  // Comma-separated values (RFC 4180): quotes may hold commas and line breaks.
  function table(text) {
    const made = document.createElement("table");
    let cells = made.insertRow();
    for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
      cells.insertCell().textContent = quoted?.replaceAll("\"\"", "\"") ?? plain;
      if (end !== "," && made.rows.length < 5_000) cells = made.insertRow();
    }
    for (const row of [...made.rows]) if (!row.textContent) row.remove();
    return made;
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
        const leads = node.localName === "a" && /^https?:\/\//i.test(node.getAttribute("href") ?? "");
        const made = leads ? link("", node.getAttribute("href"))
          : READ.has(node.localName) ? document.createElement(node.localName) : to;
        for (const name of ["colspan", "rowspan", "start", "scope"]) {
          const value = node.getAttribute(name);
          if (made !== to && /^\w{1,9}$/.test(value ?? "")) made.setAttribute(name, value);
        }
        copyMarkup(node, made);
        if (made !== to) to.append(made);
      }
    }
  }
