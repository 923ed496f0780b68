// Passes that are kept in the browser: bought, shown, refused, and not charged where nobody said so.
import { Wallet, isShown, openTab, press, textOf, untilSays, untilShown } from "./browser.mjs";

const sleep = (time) => new Promise((resolve) => { setTimeout(resolve, time); });
const USE = "Use it for your question";

// Runs in the page before its own script: the first reply to a pass is lost, after the seller sent all of it.
function losesOne() {
  const { fetch } = window;
  let isLost = false;
  window.fetch = async (address, asked) => {
    const response = await fetch(address, asked);
    if (isLost || !asked.headers["x402-pass"]) return response;
    isLost = true;
    await response.arrayBuffer();
    throw new TypeError("Failed to fetch");
  };
}

export const passes = ({ settings, answered, examined }) => {
  const { url, chain, account } = settings;
  const at = (path) => new URL(path, url).href;
  const opened = async (browser) => {
    const tab = await openTab(browser, { wallet: new Wallet(chain, { account }) });
    tab.shown = 0;
    tab.page.on("request", (request) => { if (request.headers()["x402-pass"]) tab.shown += 1; });
    return tab;
  };
  const shows = async (page) => ({ ...await answered(page), left: await page.$$eval("#receipt dd", (all) => all[2].textContent) });
  const bought = async (browser) => {
    const { page } = await opened(browser);
    await page.goto(at("/pass"));
    await press(page, settings.press);
    await untilSays(page, "Your pass is kept");
    await page.close();
  };
  // By a link on another page.
  const follows = async (page, from) => {
    await page.goto(from);
    await Promise.all([page.waitForNavigation(), page.evaluate((url) => { location.href = url; }, url)]);
  };

  return {
    // A pass, from the link on a page to its last call.
    async pass(browser) {
      const { page, seen } = await opened(browser);
      await page.goto(url);
      await untilShown(page, "#passes a");
      const offered = await page.$$eval("#passes a", (all) => all.map((each) => each.textContent));
      const found = await examined(page, "pass-link");
      await Promise.all([page.waitForNavigation(), page.click("#passes a")]);
      await press(page, settings.press);
      await untilSays(page, "Your pass is kept");
      const bought = await textOf(page, "#status");
      found.push(...await examined(page, "pass-bought"));
      await Promise.all([page.waitForNavigation(), press(page, USE)]);
      const back = new URL(page.url());
      const first = await shows(page);
      found.push(...await examined(page, "pass-used"));
      await page.reload();
      const reloaded = await shows(page);
      const { page: next, seen: later } = await opened(browser);
      await next.goto(url);
      await untilSays(next, "Your pass is kept");
      found.push(...await examined(next, "pass-kept"));
      await press(next, USE);
      const second = await shows(next);
      const { page: last } = await opened(browser);
      await last.goto(url);
      await untilShown(last, "#pay");
      const third = { pay: await isShown(last, "#pay"), kept: await last.evaluate(() => Object.keys(localStorage).filter((key) => key.startsWith("x402-pass ")).length) };
      return { found, offered, bought, back: back.pathname + back.search, first, reloaded, second, third,
        complaints: [...seen.complaints, ...later.complaints], dialogs: seen.dialogs + later.dialogs };
    },

    async refused_pass(browser) {
      const tab = await opened(browser);
      const { page, seen } = tab;
      await page.evaluateOnNewDocument((pass) => { if (!sessionStorage.getItem("set")) { localStorage.setItem("x402-pass two", pass); sessionStorage.setItem("set", "1"); } }, settings.pass);
      await page.goto(url);
      await untilShown(page, "#pay");
      if (settings.uses) await press(page, USE);
      await untilShown(page, "#pay");
      const pay = await isShown(page, "#pay");
      const kept = await page.evaluate(() => localStorage.getItem("x402-pass two"));
      // Not shown again, it is not refused again.
      await page.reload();
      await untilShown(page, "#pay");
      return { pay, kept, shown: tab.shown, offers: await textOf(page, "#actions"), ...seen };
    },

    // The reply to a pass is lost, and the visitor waits, and then asks again.
    async lost_pass(browser) {
      await bought(browser);
      const tab = await opened(browser);
      const { page } = tab;
      await page.evaluateOnNewDocument(losesOne);
      await follows(page, at("/open"));
      await sleep(8_000);
      const lost = { said: await textOf(page, "#status"), times: tab.shown };
      await press(page, "Try again");
      return { lost, ...await shows(page), times: tab.shown };
    },

    // Links to the page: a stranger's, and one of the shop.
    async linked_pass(browser) {
      await bought(browser);
      const tab = await opened(browser);
      const { page } = tab;
      await follows(page, at("/open").replace("127.0.0.1", "localhost"));
      await sleep(2_000);
      const linked = { said: await textOf(page, "#status"), times: tab.shown };
      await page.reload();
      await sleep(2_000);
      const reloaded = { said: await textOf(page, "#status"), times: tab.shown };
      await press(page, USE);
      const first = await shows(page);
      const { page: own } = await opened(browser);
      await follows(own, at("/open"));
      return { linked, reloaded, first, second: await shows(own) };
    },
  };
};
