// One visit in a browser: node visit.mjs SCENARIO SETTINGS, both as JSON; prints what came of it as a line of JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import {
  Wallet, asked, isShown, launch, openTab, payByHand, press, rpc, textOf, untilSays, untilShown,
} from "./browser.mjs";
import { faults } from "./faults.mjs";
import { passes } from "./passes.mjs";

const [scenario, settings] = [process.argv[2], JSON.parse(process.argv[3])];
const { program, url, chain, account, folder } = settings;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const answered = async (page) => {
  await untilShown(page, "#answer");
  return { shown: await textOf(page, "#shown"), status: await textOf(page, "#status") };
};
const picture = (page, name) => page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
const kept = (page) => page.evaluate(() => [sessionStorage.length, Object.keys(localStorage).filter((key) => key.startsWith("x402 ")).length]);
const offered = async (page) => ({ pay: await isShown(page, "#pay"), elsewhere: await isShown(page, "#else") });

const unfold = (page) => page.$$eval("details", (all) => all.forEach((each) => { each.open = true; }));

async function typed(page, hash) {
  await unfold(page);
  await page.$eval("#hash", (field) => { field.value = ""; });
  await page.type("#hash", hash);
  await page.click("#form button[type=submit]");
}

// The page as it is now, in both schemes and on all widths: findings of axe-core, and whether anything sticks out.
async function examined(page, name) {
  const found = [];
  for (const width of [320, 390, 1280]) {
    for (const scheme of ["light", "dark"]) {
      await page.setViewport({ width, height: 900 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await page.evaluate(AXE);
      const { violations } = await page.evaluate(() => window.axe.run());
      found.push(...violations.map(({ id, nodes }) => `${name} ${width} ${scheme}: ${id} at ${nodes.map((n) => n.target)}`));
      if (await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth)) {
        found.push(`${name} ${width}: wider than the window`);
      }
      await picture(page, `${name}-${width}-${scheme}`);
    }
  }
  return found;
}

const scenarios = {
  ...faults({ settings, answered, typed, kept, offered }),
  ...passes({ settings, answered, examined }),

  // By a wallet that is told the words of its button.
  async pay(browser) {
    const wallet = new Wallet(chain, { account, legacy: settings.legacy, name: settings.wallet, chainId: settings.chainId });
    const { page, seen } = await openTab(browser, { wallet });
    const response = await page.goto(url);
    await press(page, settings.press);
    const answer = { ...await answered(page), receipt: await page.$$eval("#receipt dd", (all) => all.map((each) => each.textContent)) };
    const focus = await page.evaluate(() => document.activeElement.id);
    const [session, local] = await kept(page);
    await page.reload();
    await untilShown(page, "#status:not(:empty)");
    const again = settings.redelivered ? await answered(page) : await page.waitForFunction(
      () => document.getElementById("status").className !== "" || !document.getElementById("pay").hidden,
    ).then(async () => offered(page));
    return { quoted: response.status(), ...answer, focus, session, local, again, asked: wallet.asked, ...seen };
  },

  // What the page makes of an answer.
  async rendered(browser) {
    const { page, seen } = await openTab(browser, { wallet: new Wallet(chain, { account }) });
    if (settings.readers) {
      // Something in between answers in the seller's place.
      await page.setRequestInterception(true);
      page.on("request", (request) => request.headers()["x402-page"] === "readers" ? request.respond(settings.readers) : request.continue());
    }
    await page.goto(url);
    await press(page, settings.press);
    await page.waitForSelector("#status.good");
    await picture(page, "rendered");
    return { markup: await page.$eval("#shown", (shown) => shown.innerHTML), title: await page.title(), ...seen };
  },

  // Loaded anew while its signed payment is redeemed: by a handler that takes a while, or on a chain that stands still.
  async reloaded(browser) {
    const { page, seen } = await openTab(browser, { wallet: new Wallet(chain, { account }) });
    await page.goto(url);
    if (settings.still) await rpc(chain, "evm_setIntervalMining", [0]);
    await press(page, settings.press);
    await untilSays(page, "Getting your answer");
    await new Promise((resolve) => { setTimeout(resolve, settings.after); });
    await page.reload();
    await page.waitForFunction(() => document.getElementById("status").textContent);
    const said = await textOf(page, "#status");
    const open = await offered(page);
    await new Promise((resolve) => { setTimeout(resolve, 2_000); });
    const later = await textOf(page, "#status");
    if (settings.still) await rpc(chain, "evm_setIntervalMining", [1]);
    const began = Date.now();
    return { said, later, open, ...(await answered(page)), took: Date.now() - began, ...seen };
  },

  // Where things are, with two wallets, at both widths; and which wallet comes first after a purchase.
  async laid(browser) {
    const wallet = new Wallet(chain, { account, name: "One", copies: 1 });
    const { page, seen } = await openTab(browser, { wallet });
    await page.goto(url);
    await page.waitForFunction(() => document.querySelectorAll("#wallets button").length === 4);
    const rows = () => page.$$eval("#wallets>div", (all) => all.map((each) => [...each.children].map((child) => child.textContent)));
    const place = (selector) => page.$eval(selector, (element) => {
      const { left, right, top, bottom } = element.getBoundingClientRect();
      return { left, right, top, bottom };
    });
    const before = await rows();
    const will = await textOf(page, "#will");
    const icons = await page.$$eval("#wallets img", (all) => all.filter((image) => image.naturalWidth > 0).length);
    const folded = await page.$$eval("details", (all) => all.map((each) => each.open));
    await page.setViewport({ width: 1280, height: 800 });
    const wide = { sum: await place(".sum"), way: await place(".way"), all: await page.evaluate(() => document.documentElement.scrollHeight) };
    await page.setViewport({ width: 320, height: 800 });
    const narrow = { sum: await place(".sum"), way: await place(".way") };
    await press(page, "Pay with One 1");
    const shown = await answered(page);
    const receipt = await page.$$eval("#receipt dt, #receipt dd", (all) => all.map((each) => each.textContent));
    const title = await page.title();
    const first = await page.evaluate(() => document.querySelector("main").getBoundingClientRect().top
      > document.querySelector("#answer").getBoundingClientRect().top - 40);
    await page.evaluate(() => sessionStorage.clear());
    await page.reload();
    await page.waitForFunction(() => document.querySelectorAll("#wallets button").length === 4);
    return { before, will, icons, folded, wide, narrow, ...shown, receipt, title, first, after: await rows(), ...seen };
  },

  // Without a wallet: what opens the page where there is one.
  async walletless(browser) {
    const { page } = await openTab(browser);
    await page.goto(url);
    await untilShown(page, "#none");
    const apps = await page.$$eval("#apps a", (all) => all.map((each) => each.href));
    await untilShown(page, "#phone .qr");
    const code = { wide: await page.$eval("#code", (image) => image.naturalWidth > 20) };
    const folded = await page.$$eval("details", (all) => all.map((each) => each.open));
    await page.setViewport({ width: 390, height: 800 });
    code.narrow = await isShown(page, "#phone .qr");
    return { apps, code, folded };
  },

  async keyboard(browser) {
    const wallet = new Wallet(chain, { account });
    const { page } = await openTab(browser, { wallet });
    await page.goto(url);
    await untilShown(page, "#wallets button");
    const order = [];
    for (let step = 0; step < 20; step += 1) {
      await page.keyboard.press("Tab");
      const at = await page.evaluate(() => {
        const { id, innerText, tagName } = document.activeElement;
        const outline = getComputedStyle(document.activeElement).outlineStyle;
        return { what: id || innerText || tagName, outline };
      });
      order.push(at);
      if (at.what.includes(settings.press)) break;
    }
    await page.keyboard.press("Enter");
    return { order, ...(await answered(page)) };
  },

  async hash(browser) {
    const { page, seen } = await openTab(browser);
    await page.goto(url);
    await untilShown(page, "#none");
    const details = await asked(page);
    await typed(page, "0x12");
    await untilSays(page, "not a transaction hash");
    const invalid = await page.$eval("#hash", (field) => field.getAttribute("aria-invalid"));
    const hash = await payByHand(chain, account, details, 490_000);
    // As a block explorer's address has it.
    await typed(page, ` https://explorer.example/tx/${hash} `);
    await untilSays(page, "Waiting for the network");
    const waiting = await offered(page);
    return { details, invalid, waiting, ...(await answered(page)), ...seen };
  },

  // The wallet sends and is not heard of again; the page is loaded anew meanwhile, or the tab closed.
  async interrupted(browser) {
    const wallet = new Wallet(chain, { account, mood: "hangs" });
    let { page } = await openTab(browser, { wallet });
    await page.goto(url);
    await press(page, "Pay with");
    while (!wallet.hash) await new Promise((resolve) => { setTimeout(resolve, 50); });
    const intent = await page.evaluate(() => Object.values(sessionStorage).map((value) => JSON.parse(value).intent).find(Boolean));
    if (settings.close) {
      await page.close();
      ({ page } = await openTab(browser));
      await page.goto(url);
    } else {
      await page.reload();
    }
    await untilSays(page, "You began to pay here");
    await typed(page, wallet.hash);
    const answer = await answered(page);
    return { ...answer, same: wallet.transaction.data, intent };
  },

  // Paid, and not in a block yet.
  async pending(browser) {
    const wallet = new Wallet(chain, { account });
    let { page } = await openTab(browser, { wallet });
    await page.goto(url);
    await rpc(chain, "evm_setIntervalMining", [0]);
    await press(page, "Pay with");
    await untilSays(page, "Waiting for the network");
    const bar = await isShown(page, "#bar");
    await page.reload();
    await untilSays(page, "Waiting for the network");
    const reloaded = await offered(page);
    await page.goto("about:blank");
    await page.goBack();
    await untilSays(page, "Waiting for the network");
    await page.close();
    ({ page } = await openTab(browser));
    await page.goto(url);
    await untilSays(page, "Waiting for the network");
    const reopened = await offered(page);
    await rpc(chain, "evm_setIntervalMining", [1]);
    return { bar, reloaded, reopened, ...(await answered(page)), kept: await kept(page), asked: wallet.asked };
  },

  async declined(browser) {
    const wallet = new Wallet(chain, { account, mood: "declines" });
    const { page } = await openTab(browser, { wallet });
    await page.goto(url);
    await press(page, settings.press);
    await untilSays(page, "You declined");
    const declined = { ...(await offered(page)), kept: await kept(page) };
    wallet.mood = "fails";
    await press(page, settings.press);
    await page.waitForSelector("#status.bad");
    const failed = { ...(await offered(page)), said: await textOf(page, "#status"), kept: await kept(page) };
    wallet.mood = "";
    await press(page, settings.press);
    return { declined, failed, ...(await answered(page)) };
  },

  // Payments that buy nothing: too small, to somebody else, spent.
  async refused(browser) {
    const { page } = await openTab(browser);
    await page.goto(url);
    const details = await asked(page);
    const told = [];
    for (const [recipient, units] of [[details.recipient, 489_999], [account, 490_000]]) {
      const hash = await payByHand(chain, account, { ...details, recipient }, units);
      await typed(page, hash);
      await page.waitForSelector("#status.bad");
      told.push({ said: await textOf(page, "#status"), ...(await offered(page)), form: await isShown(page, "#form") });
    }
    await typed(page, await payByHand(chain, account, details, 490_000));
    return { told, ...(await answered(page)) };
  },

  // A seller who asks who paid.
  async proving(browser) {
    const wallet = new Wallet(chain, { account });
    const { page } = await openTab(browser, { wallet });
    await page.goto(url);
    await untilShown(page, "#wallets button");
    await typed(page, await payByHand(chain, account, await asked(page), 490_000));
    await press(page, "Sign as the payer");
    return { ...(await answered(page)), asked: wallet.asked };
  },

  // Without script: the address, and a form.
  async plain(browser) {
    const { page, seen } = await openTab(browser, { script: false });
    await page.goto(url);
    const details = await asked(page);
    const visible = { ...(await offered(page)), form: await isShown(page, "#form"), qr: await isShown(page, "#else .qr") };
    const copies = await page.$$eval("#else dd button", (all) => all.filter((each) => each.getClientRects().length).length);
    await picture(page, "plain-quote");
    await rpc(chain, "evm_setIntervalMining", [0]);
    const hash = await payByHand(chain, account, details, 490_000);
    const submit = () => Promise.all([page.waitForNavigation(), page.click("form button[type=submit]")]);
    await page.type("#hash", hash);
    const [early] = await submit();
    const refusal = { status: early.status(), text: await textOf(page, "main"), wide: await page.$eval("#hash", (f) => f.value) };
    await picture(page, "plain-refusal");
    await rpc(chain, "evm_setIntervalMining", [1]);
    let answer = early;
    for (let times = 0; answer.status() !== 200 && times < 60; times += 1) {
      await new Promise((resolve) => { setTimeout(resolve, 500); });
      [answer] = await submit();
    }
    return { details, visible, copies, refusal, status: answer.status(), text: await textOf(page, "body"), hash, ...seen };
  },

  async accessible(browser) {
    const wallet = new Wallet(chain, { account });
    const { page } = await openTab(browser, { wallet });
    await page.goto(url);
    await untilShown(page, "#wallets button");
    const found = await examined(page, "quote");
    const { page: asking } = await openTab(browser, { wallet: new Wallet(chain, { account, mood: "asks" }) });
    await asking.goto(url);
    await press(asking, "without network fee");
    await untilSays(asking, "This account has");
    found.push(...await examined(asking, "wallet"));
    await asking.close();
    const { page: wrong } = await openTab(browser);
    await wrong.goto(url);
    await typed(wrong, await rpc(chain, "eth_sendTransaction", [{ from: account, to: account, value: "0x1" }]));
    await wrong.waitForSelector("#status.bad");
    found.push(...await examined(wrong, "refused"));
    await wrong.close();
    await rpc(chain, "evm_setIntervalMining", [0]);
    await press(page, "Send a transaction instead");
    await untilSays(page, "Waiting for the network");
    found.push(...await examined(page, "waiting"));
    await rpc(chain, "evm_setIntervalMining", [1]);
    await answered(page);
    found.push(...await examined(page, "answer"));
    for (const [name, address] of Object.entries(settings.more ?? {})) {
      const { page: other } = await openTab(browser);
      await other.goto(address);
      found.push(...await examined(other, name));
    }
    return { found };
  },

  // Addresses of pages whose texts try to be more than text.
  async attacked(browser) {
    const told = [];
    for (const address of settings.addresses) {
      const { page, seen } = await openTab(browser, { wallet: new Wallet(chain, { account, name: "<img src=x onerror=__pwned()>" }) });
      let pwned = 0;
      await page.exposeFunction("__pwned", () => { pwned += 1; });
      await page.goto(address);
      await untilShown(page, "#wallets button");
      await unfold(page);
      await page.type("#hash", "\"><img src=x onerror=__pwned()>");
      await page.click("#form button[type=submit]");
      await untilSays(page, "not a transaction hash");
      const strange = await page.evaluate(() => document.querySelectorAll("main img:not(#wallets img, img.qr), main script, main iframe, base, link").length);
      const texts = { h1: await textOf(page, "h1"), asked: await page.$eval(".asked", (e) => e.textContent).catch(() => null) };
      let answer;
      if (settings.buy) {
        await press(page, "Pay with");
        answer = (await answered(page)).shown;
      }
      const markup = await page.evaluate(() => document.querySelectorAll("#shown script, #shown img, #shown form, #shown [onclick], #shown [style], #shown svg, #shown iframe, #shown a[href*=script]").length);
      await page.close();
      const origin = new URL(address).origin;
      const foreign = seen.requests.filter((request) => !request.split(" ")[1].startsWith(origin) && !/ (blob|data):/.test(request));
      told.push({ pwned, strange, markup, texts, answer, foreign, dialogs: seen.dialogs, complaints: seen.complaints });
    }
    return { told };
  },

  // A page that another one puts into a frame.
  async framed(browser) {
    const { page } = await openTab(browser);
    await page.goto(settings.frame);
    await page.waitForFunction(() => document.readyState === "complete");
    const inside = await Promise.all(page.frames().slice(1).map((frame) => frame.evaluate(() => document.body.innerText).catch(() => "")));
    return { inside };
  },

  // The visitor's way through the shop: the form on its first page, the price, the answer.
  async shopping(browser) {
    const wallet = new Wallet(chain, { account });
    const { page, seen } = await openTab(browser, { wallet });
    await page.goto(url);
    const found = await examined(page, "welcome");
    await page.$eval(settings.field, (field) => { field.value = ""; });
    await page.type(settings.field, settings.question);
    await Promise.all([page.waitForNavigation(), page.click(settings.submit)]);
    const quoted = { address: page.url(), text: await textOf(page, "main") };
    await picture(page, "shopping-quote");
    await press(page, settings.press);
    const answer = await answered(page);
    const tables = await page.$$eval("#shown table, #shown h1, #shown h2", (all) => all.length);
    found.push(...await examined(page, "shopping-answer"));
    return { found, quoted, ...answer, tables, ...seen };
  },
};

const browser = await launch(program);
try {
  console.log(JSON.stringify(await scenarios[scenario](browser)));
} finally {
  await browser.close();
}
