  // ---- Markdown, as far as answers use it: headings, paragraphs, lists, quotations, tables, code; emphasis and links within. What it
  // does not know stays text. It makes elements and text, never markup, and no pattern looks further than a thousand characters.
  const INLINE = /`([^`\n]{1,999})`|\*\*([^\n]{1,999}?)\*\*|\*([^\s*][^*\n]{0,999})\*|\[([^[\]\n]{1,499})\]\((https?:\/\/[^\s()]{1,999})\)/g;

  function inline(text, to, deep = 0) {
    let from = 0;
    for (const { 0: all, 1: code, 2: strong, 3: em, 4: words, 5: href, index } of deep < 3 ? text.matchAll(INLINE) : []) {
      to.append(text.slice(from, index));
      from = index + all.length;
      const made = href ? link("", href) : make(code ? "code" : strong ? "strong" : "em");
      if (code) made.textContent = code;
      else inline(words ?? strong ?? em, made, deep + 1);
      to.append(made);
    }
    to.append(text.slice(from));
    return to;
  }

  const ITEM = /^ {0,9}(?:[-*+]|(\d{1,9})[.)]) +(.*)/;
  const RULE = /^ {0,3}(?:-{3,}|\*{3,}|_{3,})\s*$/;
  const COLUMNS = /^ *\|?[ :]*-[-| :]*$/;
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

  function markdown(lines, to, deep = 0) {
    const add = (name, text, within = to) => inline(text, within.appendChild(make(name)));
    // The lines from here on that look like this.
    const run = (at, looks) => {
      const end = lines.findIndex((line, index) => index >= at && !looks(line));
      return lines.slice(at, end < 0 ? lines.length : end);
    };
    const plain = (line) => line.trim() && !/^ {0,3}(?:#{1,6} |>|```)/.test(line) && !ITEM.test(line) && !RULE.test(line);
    for (let at = 0; at < lines.length;) {
      const line = lines[at];
      const [, level, heading] = /^ {0,3}(#{1,6}) +(.*?)(?: +#+)?\s*$/.exec(line) ?? [];
      let taken = [line];
      if (/^ {0,3}```/.test(line)) {
        const code = run(at + 1, (each) => !/^ {0,3}```\s*$/.test(each));
        to.append(make("pre", { textContent: code.join("\n") }));
        taken = [line, ...code, ""];
      } else if (level) {
        add(`h${level.length}`, heading);
      } else if (RULE.test(line)) {
        add("hr", "");
      } else if (/^ {0,3}>/.test(line) && deep < 5) {
        taken = run(at, (each) => /^ {0,3}>/.test(each));
        markdown(taken.map((each) => each.replace(/^ {0,3}> ?/, "")), to.appendChild(make("blockquote")), deep + 1);
      } else if (ITEM.test(line)) {
        taken = run(at, (each) => ITEM.test(each) || /^ +\S/.test(each));
        const [, start] = ITEM.exec(line);
        const list = to.appendChild(start ? make("ol", { start }) : make("ul"));
        for (const each of taken) {
          const item = ITEM.exec(each);
          if (item) add("li", item[2], list);
          else inline(` ${each.trim()}`, list.lastChild);
        }
      } else if (line.includes("|") && COLUMNS.test(lines[at + 1] ?? "")) {
        taken = [line, lines[at + 1], ...run(at + 2, (each) => each.includes("|"))];
        const table = to.appendChild(make("table"));
        for (const [number, each] of taken.entries()) {
          const row = number === 1 ? null : table.insertRow();
          for (const cell of row ? cells(each) : []) add(number ? "td" : "th", cell, row);
        }
      } else if (line.trim()) {
        taken = [line, ...run(at + 1, plain)];
        add("p", taken.map((each) => each.trim()).join(" "));
      }
      at += taken.length;
    }
  }
