  // ---- The rest of the page.
  function count() {
    const left = data.expiry - now();
    const time = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
    write("left", left > 0 && left < 120 ? say("$left", { time }) : "");
    if (left > 0) setTimeout(count, 1000);
    else if (!state && !(PASSES && newest) && wasOpen && !byId("hash")?.value && !document.hidden) reload();
    else if (!state || state.asked) offer(true);
  }
  // A price that was over when the page came does not renew itself: that might not end.
  const wasOpen = now() < data.expiry;

  // Where the clipboard is closed, such as on pages without TLS, what is shown is selected and copied.
  async function copy(pressed, text, source) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      getSelection().selectAllChildren(source);
      document.execCommand("copy");
    }
    for (const id of [pressed.id, "said"]) write(id, say("$copied"));
    setTimeout(() => {
      write(pressed.id, say("$copy"));
      write("said", "");
    }, 2000);
  }

  // The typed text may be an address that contains a hash.
  const form = byId("form") ?? {};
  form.noValidate = true;
  form.onsubmit = (event) => {
    event.preventDefault();
    const field = byId("hash");
    const hash = field.value.match(HASH)?.[0].toLowerCase();
    field.setAttribute("aria-invalid", String(!hash));
    if (!hash) {
      tell("$no_hash", "bad");
      field.focus();
      return;
    }
    if (state?.hash?.toLowerCase() !== hash) {
      // The payment may be bound to an intent of before.
      const open = state && !state.done ? state : data;
      save({ intent: open.intent, chain: open.chain, secret: open.secret, hash });
    }
    redeem();
  };
  // Each detail of a transfer can be copied.
  for (const source of document.querySelectorAll("dd code")) {
    const made = button(say("$copy"), () => copy(made, source.textContent, source), "plain small");
    made.id = `${source.id}-copy`;
    made.setAttribute("aria-labelledby", `${made.id} ${source.id}-name`);
    source.parentNode.after(made);
  }
  write("host", location.host);
  byId("renew").onclick = reload;
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
      loadReader(kept.answer.type).then((read) => display(kept.answer, kept.bytes, read));
      tell(outcome(), "good");
      actions(buyAgain());
    } else if (state?.hash || state?.header) {
      redeem();
    } else if (held && document.prerendering) {
      // The visitor does not see it yet, and may never do.
      document.addEventListener("prerenderingchange", begin, { once: true });
    } else if (held && comesFromHere()) {
      callByPass(held);
    } else {
      offer(true);
      tellText("");
      if (held) {
        tell("$pass_kept");
        actions(useButton("$use_pass", held));
      } else if (state?.asked) {
        tell("$began");
        askForHash();
        actions(forget());
      }
    }
  }
  begin();
})();
