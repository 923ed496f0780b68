// What goes wrong between page and seller: proxies, broken connections, strangers, several tabs.
import { Wallet, asked, isShown, openTab, payByHand, press, rpc, textOf, untilSays, untilShown } from "./browser.mjs";

const sleep = (time) => new Promise((resolve) => { setTimeout(resolve, time); });

// Answers the first redemptions in place of the seller.
async function proxied(page, faults) {
  const left = [...faults];
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    const headers = request.headers();
    const fault = ("x402-payment" in headers || "payment-signature" in headers) && left.shift();
    if (fault) request.respond(fault);
    else request.continue();
  });
}

// Runs in the page before its own script: the first sold answer breaks off behind its head, after the seller sent all of it.
function breaksOff() {
  const { fetch } = window;
  let isBroken = false;
  window.fetch = async (...asked) => {
    const response = await fetch(...asked);
    if (isBroken || !response.headers.has("payment-response")) return response;
    isBroken = true;
    await response.arrayBuffer();
    const { status, headers } = response;
    return new Response(new ReadableStream({ pull: (body) => body.error(new TypeError("broken")) }), { status, headers });
  };
}

// Somebody who reads the chain and redeems what others paid.
async function watcher(url, txHash) {
  const quote = await fetch(url);
  const headers = { "x402-payment": JSON.stringify({ intentId: quote.headers.get("x-price-intent"), txHash }) };
  while (!(await fetch(url, { headers, redirect: "manual" })).headers.has("payment-response")) await sleep(500);
}

export const faults = ({ settings, answered, typed, kept, offered }) => {
  const { url, chain, account } = settings;
  const bought = async (browser) => {
    const wallet = new Wallet(chain, { account });
    const tab = await openTab(browser, { wallet });
    return { ...tab, wallet };
  };

  return {
    // A reply that is no sale, and then the seller.
    async intercepted(browser) {
      const { page } = await bought(browser);
      await proxied(page, settings.faults);
      await page.goto(url);
      await press(page, "Pay with");
      await page.waitForSelector("xpath/.//button[contains(., 'Try again')]", { visible: true });
      const reply = { said: await textOf(page, "#status"), heading: await textOf(page, "#answer-title"), kept: await kept(page), ...(await offered(page)) };
      await press(page, "Try again");
      await page.waitForSelector("#status.good");
      return { reply, heading: await textOf(page, "#answer-title"), ...(await answered(page)) };
    },

    // Replies that pass.
    async retried(browser) {
      const { page } = await bought(browser);
      await proxied(page, settings.faults);
      await page.goto(url);
      await press(page, "Pay with");
      await page.waitForSelector("#status.good");
      return { heading: await textOf(page, "#answer-title"), ...(await answered(page)) };
    },

    // A reply that has the visitor wait, and then the seller.
    async postponed(browser) {
      const { page, wallet } = await bought(browser);
      await proxied(page, settings.faults);
      await page.goto(url);
      await press(page, settings.press);
      await untilSays(page, "cannot answer right now");
      const meanwhile = { kept: await kept(page), sold: await isShown(page, "#answer"), ...(await offered(page)) };
      await page.waitForSelector("#status.good");
      return { meanwhile, heading: await textOf(page, "#answer-title"), ...(await answered(page)), asked: wallet.asked };
    },

    // A signed payment that is refused, and a new one.
    async renewed(browser) {
      const { page } = await bought(browser);
      await proxied(page, settings.faults);
      await page.goto(url);
      await press(page, settings.press);
      await page.waitForSelector("#status.bad");
      const refused = { said: await textOf(page, "#status"), sold: await isShown(page, "#answer"), next: await textOf(page, "#actions") };
      await Promise.all([page.waitForNavigation(), page.$eval("#actions button", (renew) => renew.click())]);
      await press(page, settings.press);
      await page.waitForSelector("#status.good");
      return { refused, ...(await answered(page)) };
    },

    // An answer that lies elsewhere.
    async moved(browser) {
      const { page, seen } = await bought(browser);
      await page.goto(url);
      await press(page, "Pay with");
      await page.waitForSelector("#status.good");
      const link = await page.$eval("#shown a", (link) => [link.href, link.rel, link.target]);
      return { link, ...(await answered(page)), kept: await kept(page), ...seen };
    },

    // A plain transfer that a stranger redeemed first.
    async overtaken(browser) {
      const { page, wallet } = await bought(browser);
      await page.goto(url);
      await untilShown(page, "#wallets button");
      const warning = await page.$eval("#else", (folded) => folded.textContent);
      const hash = await payByHand(chain, account, await asked(page), 490_000);
      await watcher(url, hash);
      await typed(page, hash);
      await untilSays(page, "has bought an answer already");
      await press(page, "Sign as the payer");
      while (!wallet.asked.includes("personal_sign")) await sleep(50);
      await untilSays(page, "has bought an answer already");
      return { warning, asked: wallet.asked };
    },

    // The payer's signature is offered while a plain transfer is held.
    async signed(browser) {
      const { page, wallet } = await bought(browser);
      await page.goto(url);
      await untilShown(page, "#wallets button");
      await rpc(chain, "evm_setIntervalMining", [0]);
      await typed(page, await payByHand(chain, account, await asked(page), 490_000));
      await press(page, "Sign as the payer");
      while (!wallet.asked.includes("personal_sign")) await sleep(50);
      await rpc(chain, "evm_setIntervalMining", [1]);
      return { ...(await answered(page)), asked: wallet.asked };
    },

    // A payment that is bound to an intent of a browser that forgot it.
    async bound(browser) {
      const silent = new Wallet(chain, { account, mood: "hangs" });
      const { page: first } = await openTab(browser, { wallet: silent });
      await first.goto(url);
      await press(first, "Pay with");
      while (!silent.hash) await sleep(50);
      await first.evaluate(() => localStorage.clear());
      await first.close();
      const { page, wallet } = await bought(browser);
      await page.goto(url);
      await typed(page, silent.hash);
      await untilSays(page, "payment_bound");
      const said = await textOf(page, "#status");
      await press(page, "Sign as the payer");
      return { said, ...(await answered(page)), asked: wallet.asked };
    },

    // Two tabs at one address: one wallet sends and is not heard of, the other tab buys.
    async tabs(browser) {
      const silent = new Wallet(chain, { account, mood: "hangs" });
      const { page: first } = await openTab(browser, { wallet: silent });
      await first.goto(url);
      const { page: second } = await bought(browser);
      await second.goto(url);
      await first.bringToFront();
      await press(first, "Pay with");
      while (!silent.hash) await sleep(50);
      await second.bringToFront();
      await press(second, "Pay with");
      await answered(second);
      await second.close();
      await first.close();
      const { page: third } = await openTab(browser);
      await third.goto(url);
      await untilSays(third, "You began to pay here");
      await typed(third, silent.hash);
      return { ...(await answered(third)), kept: await kept(third) };
    },

    // A hash that the network never hears of.
    async dead(browser) {
      const wallet = new Wallet(chain, { account, mood: "hangs" });
      const { page } = await openTab(browser, { wallet });
      await page.goto(url);
      await press(page, "Pay with");
      while (!wallet.hash) await sleep(50);
      await page.reload();
      await untilSays(page, "You began to pay here");
      await typed(page, `0x${"ab".repeat(32)}`);
      await untilSays(page, "Waiting for the network");
      await page.evaluate(() => {
        const real = Date.now;
        Date.now = () => real() + 31_000;
      });
      await untilSays(page, "does not know this transaction");
      const form = await isShown(page, "#form");
      await press(page, "Forget this payment");
      const asks = await textOf(page, "#status");
      await Promise.all([page.waitForNavigation(), press(page, "Forget it")]);
      await untilShown(page, "#pay");
      const after = { ...(await offered(page)), local: (await kept(page))[1] };
      await typed(page, wallet.hash);
      return { form, asks, after, ...(await answered(page)) };
    },

    // Paid for an intent that was renewed since: then a wrong hash is corrected, or the right one is typed in other letters.
    async retyped(browser) {
      const wallet = new Wallet(chain, { account, mood: "hangs" });
      const { page } = await openTab(browser, { wallet });
      await page.goto(url);
      await press(page, "Pay with");
      while (!wallet.hash) await sleep(50);
      await page.evaluate(async (hash) => {
        const here = `x402 ${location.origin + location.pathname + location.search}`;
        const { intent: secret, ...begun } = JSON.parse(sessionStorage.getItem(here));
        const quote = await fetch(location.href, { headers: { accept: "application/json" } });
        const intent = quote.headers.get("x-price-intent");
        const record = JSON.stringify({ ...begun, intent, secret, hash });
        sessionStorage.setItem(here, record);
        localStorage.removeItem(`${here} ${secret}`);
        localStorage.setItem(`${here} ${intent}`, record);
      }, `0x${"ab".repeat(32)}`);
      await page.reload();
      await untilSays(page, "Waiting for the network");
      const capitals = wallet.hash.replace(/[a-f]/g, (digit) => digit.toUpperCase());
      await typed(page, settings.capitals ? capitals : wallet.hash);
      return answered(page);
    },

    // What has arrived of an answer is shown before its end.
    async arriving(browser) {
      const { page } = await bought(browser);
      await page.goto(url);
      await press(page, "Pay with");
      await page.waitForFunction(() => document.getElementById("shown").textContent.includes("first"));
      const early = { shown: await textOf(page, "#shown"), kept: await kept(page) };
      await page.waitForSelector(settings.broken ? "#status.bad" : "#status.good");
      return { early, ...(await answered(page)), kept: await kept(page) };
    },

    // An answer that breaks off behind its head in a tab that is closed then; a new tab, twice.
    async cut(browser) {
      const { page } = await bought(browser);
      await page.evaluateOnNewDocument(breaksOff);
      await page.goto(url);
      await press(page, "Pay with");
      await page.waitForSelector("#status.bad");
      const cut = { said: await textOf(page, "#status"), local: (await kept(page))[1] };
      await page.close();
      const visited = async () => {
        const { page } = await openTab(browser);
        await page.goto(url);
        await page.waitForFunction(() => !document.getElementById("pay").hidden
          || document.getElementById("actions").textContent.includes("Buy again"));
        const [said, shown] = [await textOf(page, "#status"), await page.$eval("#shown", (shown) => shown.innerText)];
        return { said, shown, pay: await isShown(page, "#pay"), local: (await kept(page))[1] };
      };
      return { cut, next: await visited(), last: await visited() };
    },

    // A price that rose before a late payment.
    async late(browser) {
      const { page } = await openTab(browser);
      await page.goto(url);
      await typed(page, await payByHand(chain, account, await asked(page), 480_000));
      await page.waitForSelector("#status.bad");
      return { said: await textOf(page, "#status"), contact: await page.$eval("footer a", (link) => link.href) };
    },

    // Six wallets on a phone.
    async crowded(browser) {
      const wallet = new Wallet(chain, { account, mood: "declines", copies: 5 });
      const { page } = await openTab(browser, { wallet, width: 390 });
      await page.goto(url);
      await page.waitForFunction(() => document.querySelectorAll("#wallets button").length >= 6);
      await page.$$eval("#wallets button", (all) => { const last = all.at(-1); last.scrollIntoView({ block: "end" }); last.click(); });
      await untilSays(page, "You declined");
      return page.$eval("#status", (status) => {
        const { top, bottom } = status.getBoundingClientRect();
        return { top, bottom, height: innerHeight };
      });
    },

    // An account without the money.
    async poor(browser) {
      const { page, wallet } = await bought(browser);
      await page.goto(url);
      await press(page, settings.press);
      await page.waitForSelector("#status.bad");
      return { said: await textOf(page, "#status"), asked: wallet.asked, kept: await kept(page), ...(await offered(page)) };
    },

    // Once more, after an answer that is kept.
    async twice(browser) {
      const { page } = await bought(browser);
      await page.goto(url);
      await press(page, "Pay with");
      await page.waitForSelector("#status.good");
      await page.reload();
      await page.waitForSelector("#status.good");
      const kept = await textOf(page, "#shown");
      await Promise.all([page.waitForNavigation(), press(page, "Buy again")]);
      await press(page, "Pay with");
      await page.waitForSelector("#status.good");
      return { kept, ...(await answered(page)) };
    },

    // Leaving while the wallet asks.
    async leaving(browser) {
      const wallet = new Wallet(chain, { account, mood: "hangs" });
      const { page, seen } = await openTab(browser, { wallet });
      await page.goto(url);
      await page.reload();
      const before = seen.warned;
      await press(page, "Pay with");
      while (!wallet.hash) await sleep(50);
      await page.reload();
      return { before, while: seen.warned };
    },
  };
};
