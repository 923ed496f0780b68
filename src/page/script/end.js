  // ---- The rest of the page.
  function count() {
    const left = data.expiry - now();
    const two = (number) => String(number).padStart(2, "0");
    const hours = Math.floor(left / 3600);
    const time = `${hours > 0 ? `${hours}:` : ""}${two(Math.floor(left / 60) % 60)}:${two(left % 60)}`;
    byId("left").textContent = left > 0 && left < 120 ? say("left", { time }) : "";
    if (left > 0) setTimeout(count, 1000);
    else if (!state && wasOpen && !byId("hash")?.value && !document.hidden) location.reload();
    else if (!state || state.asked) offer(true);
  }
  // A price that was over when the page came does not renew itself: that might not end.
  const wasOpen = now() < data.expiry;

  async function copy({ currentTarget: pressed }) {
    const source = byId(pressed.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {
      getSelection().selectAllChildren(source);
      document.execCommand("copy");
    }
    pressed.textContent = say("copied");
    byId("said").textContent = say("copied");
    setTimeout(() => {
      pressed.textContent = say("copy");
      byId("said").textContent = "";
    }, 2000);
  }

  // The typed text may be an address that contains a hash.
  if (byId("form")) byId("form").noValidate = true;
  byId("form")?.addEventListener("submit", (event) => {
    event.preventDefault();
    const field = byId("hash");
    const hash = field.value.match(HASH)?.[0];
    field.setAttribute("aria-invalid", String(!hash));
    if (!hash) {
      tell("no_hash", {}, "bad");
      field.focus();
      return;
    }
    if (state?.hash !== hash) {
      const open = state && !state.done ? state : data;
      save({ intent: open.intent, chain: open.chain, hash });
    }
    redeem();
  });
  for (const each of document.querySelectorAll("[data-copy]")) {
    each.hidden = false;
    each.addEventListener("click", copy);
  }
  byId("host").textContent = location.host;
  byId("renew").addEventListener("click", () => location.reload());
  show("static", false);
  show("needed", false);
  findWallets();
  count();
  // A payment that was begun comes before a pass.
  function begin() {
    const kept = state?.done && keptAnswer();
    const held = PASSES && !state && passes()[0];
    if (kept) {
      offer(false);
      show("paid", false);
      title(kept.answer);
      display(kept.answer, kept.bytes);
      tell(outcome(), {}, "good");
      actions(buyAgain());
    } else if (state?.hash || state?.header) {
      redeem();
    } else if (held && document.prerendering) {
      // Nobody sees it yet, or ever.
      document.addEventListener("prerenderingchange", begin, { once: true });
    } else if (held) {
      callByPass(held);
    } else {
      offer(true);
      tellText("", "", false);
      if (state?.asked) {
        tell("began");
        askForHash();
        actions(forget());
      }
    }
  }
  begin();
})();
