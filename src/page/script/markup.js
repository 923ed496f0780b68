  // ---- HTML and tables.
  // Comma-separated values (RFC 4180): quotes may hold commas and line breaks.
  function table(text) {
    const made = make("table");
    let cells = made.insertRow();
    for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
      cells.insertCell().textContent = quoted?.replaceAll("\"\"", "\"") ?? plain;
      if (end !== "," && made.rows.length < 5_000) cells = made.insertRow();
    }
    for (const row of [...made.rows]) if (!row.textContent) row.remove();
    return made;
  }

  // Of a page only what people read is taken over: no scripts, styles, pictures or forms.
  const READ =
    /^(?:a|abbr|b|blockquote|br|caption|cite|code|dd|del|details|dfn|div|dl|dt|em|figcaption|figure|h[1-6]|hr|i|ins|kbd|li|mark|ol|p|pre|q|s|samp|section|small|span|strong|sub|summary|sup|table|tbody|td|tfoot|th|thead|tr|u|ul|var)$/;
  const LEFT_OUT = /^(?:button|datalist|form|iframe|math|noscript|object|script|select|style|svg|textarea|title)$/;

  function copyMarkup(from, to) {
    for (const node of from.childNodes) {
      if (node.nodeType === Node.TEXT_NODE) {
        to.append(node.data);
      } else if (node.nodeType === Node.ELEMENT_NODE && !LEFT_OUT.test(node.localName)) {
        const leads = node.localName === "a" && /^https?:\/\//i.test(node.getAttribute("href") ?? "");
        const made = leads ? link("", node.getAttribute("href"))
          : READ.test(node.localName) ? make(node.localName) : to;
        for (const name of ["colspan", "rowspan", "start", "scope"]) {
          const value = node.getAttribute(name);
          if (made !== to && /^\w{1,9}$/.test(value ?? "")) made.setAttribute(name, value);
        }
        copyMarkup(node, made);
        if (made !== to) to.append(made);
      }
    }
  }
