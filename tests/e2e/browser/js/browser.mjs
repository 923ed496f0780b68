// A browser, and a wallet in it that signs on a development chain.
import puppeteer from "puppeteer-core";

export const PATIENT = 60_000;

// Whatever the machine's browser is called. The tests run as root in containers, where Chromium's sandbox cannot be had.
export const launch = (program) => puppeteer.launch({
  browser: /firefox/.test(program) ? "firefox" : "chrome",
  executablePath: program,
  headless: true,
  args: /firefox/.test(program) ? []
    : ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars", "--no-first-run"],
  protocolTimeout: PATIENT * 2,
});

export async function rpc(url, method, params = []) {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const response = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
  const { result, error } = await response.json();
  if (error) throw Object.assign(new Error(error.message), { code: error.code });
  return result;
}

// What stands in the page before its own script runs: a wallet that announces itself (EIP-6963) and hands every request on.
function injected({ account, name, legacy }) {
  const provider = {
    request: async ({ method, params }) => {
      if (method === "eth_requestAccounts") return [account];
      const { result, error } = await window.__wallet(method, params ?? []);
      if (error) throw Object.assign(new Error(error.message), error);
      return result;
    },
  };
  if (legacy) {
    window.ethereum = provider;
    return;
  }
  const info = { uuid: `${name}-1`, name, icon: "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 1 1'><path d='M0 0h1v1z'/></svg>", rdns: "test.wallet" };
  const announce = () =>
    window.dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail: Object.freeze({ info, provider }) }));
  window.addEventListener("eip6963:requestProvider", announce);
  announce();
}

// A wallet that begins on another chain. `mood`: "declines" everything that costs, "asks" and hears nothing, "hangs" after it
// has sent, or "fails" to send.
export class Wallet {
  constructor(chain, { account, name = "Test <b>wallet</b>", legacy = false, mood = "", copies = 0, chainId = "0x1" }) {
    Object.assign(this, { chain, account, name, legacy, mood, copies, asked: [], chainId });
  }

  async answer(method, params) {
    this.asked.push(method);
    try {
      return { result: await this.act(method, params) };
    } catch ({ code, message }) {
      return { error: { code, message } };
    }
  }

  async act(method, params) {
    if (method === "eth_chainId") return this.chainId;
    if (method === "wallet_switchEthereumChain") {
      this.chainId = params[0].chainId;
      return null;
    }
    if (this.mood === "declines") throw Object.assign(new Error("User rejected the request."), { code: 4001 });
    if (this.mood === "asks" && /^eth_s/.test(method)) return new Promise(() => {});
    if (this.mood === "fails") throw Object.assign(new Error("internal"), { code: -32603 });
    if (method === "eth_sendTransaction") this.transaction = params[0];
    const result = await rpc(this.chain, method, params);
    if (method !== "eth_sendTransaction") return result;
    this.hash = result;
    return this.mood === "hangs" ? new Promise(() => {}) : result;
  }

  async enter(page) {
    await page.exposeFunction("__wallet", (method, params) => this.answer(method, params));
    const { account, name, legacy } = this;
    await page.evaluateOnNewDocument(injected, { account, name, legacy });
    for (let copy = 1; copy <= this.copies; copy += 1) {
      await page.evaluateOnNewDocument(injected, { account, name: `${name} ${copy}`, legacy });
    }
  }
}

// A tab, and what went on in it: requests to other origins, complaints of the browser, dialogs.
export async function openTab(browser, { wallet, width = 1280, dark = false, script = true } = {}) {
  const page = await browser.newPage();
  const seen = { requests: [], complaints: [], dialogs: 0, warned: 0 };
  page.setDefaultTimeout(PATIENT);
  page.on("request", (request) => seen.requests.push(`${request.method()} ${request.url()}`));
  page.on("console", (message) => {
    // A 402 is told as a failure to load.
    if (["error", "warn"].includes(message.type()) && !/status of 4\d\d|status of 5\d\d/.test(message.text())) {
      seen.complaints.push(message.text());
    }
  });
  page.on("pageerror", (error) => seen.complaints.push(String(error)));
  page.on("dialog", (dialog) => {
    if (dialog.type() === "beforeunload") {
      seen.warned += 1;
      dialog.accept();
      return;
    }
    seen.dialogs += 1;
    dialog.dismiss();
  });
  await page.setViewport({ width, height: 900 });
  // Firefox has neither.
  if (dark) await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  if (!script) await page.setJavaScriptEnabled(false);
  if (wallet) await wallet.enter(page);
  return { page, seen };
}

export const isShown = (page, selector) => page.$eval(selector, (element) => element.getClientRects().length > 0);
export const textOf = (page, selector) => page.$eval(selector, (element) => element.innerText.trim());

// Also of what is folded away.
const wordsOf = (page, selector) => page.$eval(selector, (element) => element.textContent.trim());

export async function untilShown(page, selector) {
  await page.waitForSelector(selector, { visible: true });
}

export async function untilSays(page, words) {
  await page.waitForFunction(
    (words) => document.getElementById("status")?.textContent.includes(words), { polling: 50 }, words,
  );
}

// Presses the button whose text has these words.
export async function press(page, words) {
  const found = await page.waitForSelector(`xpath/.//button[contains(., ${JSON.stringify(words)}) and not(@disabled)]`, {
    visible: true,
  });
  // The status keeps to the upper edge, and may cover a button there.
  await found.evaluate((button) => button.scrollIntoView({ block: "center" }));
  await found.click();
}

// What the page asks for, read as a person reads it.
export const asked = async (page) => ({
  amount: await wordsOf(page, "#c-amount"),
  recipient: await wordsOf(page, "#c-recipient"),
  token: await wordsOf(page, "#c-token-0"),
});

// Pays that from another wallet, without a tag; in base units of six decimals.
export async function payByHand(chain, account, { recipient, token }, units) {
  const word = (hex) => hex.replace("0x", "").toLowerCase().padStart(64, "0");
  const data = `0xa9059cbb${word(recipient)}${word(units.toString(16))}`;
  return rpc(chain, "eth_sendTransaction", [{ from: account, to: token, data }]);
}
