// Two payment pages for the same quote, in the same browser on the same machine: a Markdown table.
import { createServer, get } from "node:http";
import { readFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import puppeteer from "puppeteer-core";
import { createPaywall } from "./node_modules/official/dist/esm/index.js";
import { evmPaywall } from "./node_modules/official/dist/esm/evm/index.js";

const url = process.argv[2];
const NAVIGATION = { accept: "text/html", "sec-fetch-mode": "navigate" };
const PAYMENT = ["payment-signature", "x402-payment", "x-payment"];
// A phone of the lower middle on a slow mobile network, as Lighthouse has it.
const SLOW = { download: (1.6 * 1024 * 1024 * 0.9) / 8, upload: (750 * 1024 * 0.9) / 8, latency: 150 * 3.75 };
const SLOW_CPU = 4;
const LOADS = 3;
const AXE = await readFile(new URL("./node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

// `fetch` cannot send the headers of a navigation.
const quote = await new Promise((resolve, reject) => get(url, { headers: NAVIGATION }, resolve).on("error", reject));
if (quote.statusCode !== 402) throw new Error(`${url} answers ${quote.statusCode}, and no quote`);
const own = Buffer.concat(await quote.toArray()).toString();
const required = JSON.parse(Buffer.from(quote.headers["payment-required"], "base64").toString());
const price = `${Number(required.accepts[0].amount) / 1e6}`;
const pages = {
  "`tower-x402`": { html: own, csp: quote.headers["content-security-policy"] },
  "`@x402/paywall` 2.12.0": {
    html: createPaywall().withNetwork(evmPaywall).withConfig({ testnet: true }).build().generateHtml(required, { testnet: true }),
    csp: null,
  },
};

// Serves a page, compressed, with the headers of our quote. A request that shows a payment hangs: the tab is closed meanwhile.
function serve({ html, csp }) {
  const paid = [];
  let compressed = gzipSync(html);
  const server = createServer((request, response) => {
    const payment = PAYMENT.find((name) => request.headers[name]);
    if (payment) return void paid.push(request.headers[payment]);
    if (new URL(request.url, url).pathname !== new URL(url).pathname) return response.writeHead(404).end();
    const headers = { "content-type": "text/html; charset=utf-8", "content-encoding": "gzip", "cache-control": "no-store" };
    if (csp) headers["content-security-policy"] = csp;
    for (const [name, value] of Object.entries(quote.headers)) {
      if (/^(pay|x-price|x-payment|payment-required|date)/.test(name)) headers[name] = value;
    }
    response.writeHead(402, headers).end(compressed);
  });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const { pathname, search, host } = new URL(url);
      // The other page pays at the URL of the quote, ours at its own.
      if (!csp) compressed = gzipSync(html.replaceAll(host, `127.0.0.1:${server.address().port}`));
      resolve({ paid, server, compressed: compressed.length, url: `http://127.0.0.1:${server.address().port}${pathname}${search}` });
    });
  });
}

// Two wallets that announce themselves (EIP-6963), are on the right chain, own enough, and sign anything.
function wallets({ chainId, account, connected }) {
  window.__asked = [];
  for (const name of ["First Wallet", "Second Wallet"]) {
    const provider = {
      on() {}, removeListener() {},
      request: async ({ method, params }) => {
        window.__asked.push({ method, data: JSON.stringify(params ?? []) });
        if (method === "eth_requestAccounts") connected = true;
        if (/accounts/i.test(method)) return connected ? [account] : [];
        if (method === "eth_chainId") return chainId;
        if (method === "net_version") return String(Number(chainId));
        if (/^eth_signTypedData|personal_sign/.test(method)) return `0x${"11".repeat(64)}1b`;
        if (method === "eth_call") return `0x${(5_000_000).toString(16).padStart(64, "0")}`;
        if (method === "eth_getBalance") return "0x0";
        return null;
      },
    };
    const info = { uuid: crypto.randomUUID(), name, rdns: `test.${name.split(" ")[0].toLowerCase()}`, icon: "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>" };
    const announce = () => dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail: Object.freeze({ info, provider }) }));
    addEventListener("eip6963:requestProvider", announce);
    announce();
  }
}

const browser = await puppeteer.launch({
  protocolTimeout: 60_000,
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
});

async function open(context, { dark, script = true, wallet, slow } = {}) {
  const page = await context.newPage();
  page.on("dialog", (dialog) => dialog.dismiss());
  const foreign = [];
  const calls = [];
  page.on("request", (request) => {
    if (/^(data|blob):/.test(request.url())) return;
    calls.push(request.url());
    if (!request.url().startsWith("http://127.0.0.1")) foreign.push(`${new URL(request.url()).host} ${request.postData() ?? ""}`);
  });
  // What a page asks a public node or a tracker stays here: a node says that the account owns five dollars.
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    if (/^(http:\/\/127\.0\.0\.1|data:|blob:)/.test(request.url())) return request.continue();
    const asked = request.postData();
    if (!asked?.includes("jsonrpc")) return request.respond({ status: 204, headers: { "access-control-allow-origin": "*", "access-control-allow-headers": "*" } });
    const answer = ({ id, params }) => {
      const units = JSON.stringify(params ?? []).includes("0x70a08231") ? 5_000_000 : 6;
      return { jsonrpc: "2.0", id, result: `0x${units.toString(16).padStart(64, "0")}` };
    };
    const calls = JSON.parse(asked);
    request.respond({ status: 200, contentType: "application/json", headers: { "access-control-allow-origin": "*" }, body: JSON.stringify(Array.isArray(calls) ? calls.map(answer) : answer(calls)) });
  });
  await page.setViewport({ width: 390, height: 844 });
  if (dark !== undefined) await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  if (!script) await page.setJavaScriptEnabled(false);
  if (wallet) {
    await page.evaluateOnNewDocument(wallets, { chainId: `0x${Number(required.accepts[0].network.split(":")[1]).toString(16)}`, account: `0x${"ab".repeat(20)}`, connected: wallet === "connected" });
  }
  if (slow) {
    await page.emulateNetworkConditions(SLOW);
    await page.emulateCPUThrottling(SLOW_CPU);
  }
  return { page, foreign, calls };
}

const words = (page) => page.evaluate(() => document.body.innerText);
const settled = (page) => new Promise((resolve) => setTimeout(resolve, 1500)).then(() => page);
const median = (numbers) => numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const tab = () => browser.createBrowserContext();

async function firstPaint(at) {
  const seconds = [];
  for (let load = 0; load < LOADS; load += 1) {
    const context = await tab();
    const { page } = await open(context, { slow: true });
    await page.goto(at, { waitUntil: "domcontentloaded", timeout: 120_000 });
    await page.waitForFunction((price) => document.body.innerText.includes(price), { timeout: 120_000 }, price);
    const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? performance.now());
    seconds.push(paint / 1000);
    await context.close();
  }
  return `${median(seconds).toFixed(2)} s`;
}

async function violations(at) {
  const context = await tab();
  const { page } = await open(context);
  await page.setBypassCSP(true);
  await page.goto(at, { waitUntil: "load" });
  await settled(page);
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => (await axe.run()).violations.map(({ id }) => id));
  await context.close();
  return found.length ? `${found.length} rules: ${found.join(", ")}` : "none";
}

async function withoutScript(at) {
  const context = await tab();
  const { page } = await open(context, { script: false });
  await page.goto(at);
  const { visible, form } = await page.evaluate((price) => ({ visible: document.body.innerText.includes(price), form: !!document.querySelector("form[method=post]") }), price)
    .catch(() => ({}));
  await context.close();
  return visible ? `the offer${form ? ", and a form that redeems" : ""}` : "no offer";
}

async function dark(at) {
  const colours = [];
  for (const dark of [false, true]) {
    const context = await tab();
    const { page } = await open(context, { dark });
    await page.goto(at, { waitUntil: "load" });
    await settled(page);
    colours.push(await page.evaluate(() => getComputedStyle(document.body).backgroundColor + getComputedStyle(document.documentElement).backgroundColor));
    await context.close();
  }
  return colours[0] === colours[1] ? "no" : "yes";
}

// Whether the page still shows its price where no script counts but those that a policy names by hash.
async function policy(at, page) {
  if (page.csp) return /unsafe/.test(page.csp) ? "loose" : "strict, with hashes of its own";
  return /\beval\(|new Function\(/.test(page.html) ? "none; holds code for `eval`" : "none";
}

async function press(page, pattern) {
  const pressed = await page.evaluate((pattern) => {
    const button = [...document.querySelectorAll("button")].find((b) => new RegExp(pattern, "i").test(b.innerText) && !b.disabled && b.getClientRects().length);
    button?.click();
    return button?.innerText;
  }, pattern);
  await settled(page);
  return pressed;
}

// Whether both of two wallets are named before anything is connected.
async function choice(at) {
  const context = await tab();
  const { page } = await open(context, { wallet: true });
  await page.goto(at, { waitUntil: "load" });
  await settled(page);
  const seen = await page.evaluate(() => document.body.innerText + [...document.querySelectorAll("option")].map((option) => option.innerText).join(" "));
  await context.close();
  return /First Wallet/.test(seen) && /Second Wallet/.test(seen) ? "yes" : "no";
}

// Signs with a wallet that knows the page already, and closes the tab while the payment is on its way; then opens the page again.
async function payAndReturn({ url: at, paid }) {
  const context = await tab();
  const { page, foreign } = await open(context, { wallet: "connected" });
  await page.goto(at, { waitUntil: "load" });
  await settled(page);
  for (const step of ["First Wallet", "^pay now"]) {
    if (paid.length) break;
    const pressed = await press(page, step);
    if (process.env.VERBOSE) console.error(step, "->", pressed, "|", (await words(page)).replace(/\s+/g, " "));
  }
  const asked = await page.evaluate(() => window.__asked);
  const signed = asked.findIndex(({ method }) => /sign/i.test(method));
  const balance = asked.slice(0, signed < 0 ? undefined : signed).some(({ data }) => data.includes("70a08231")) ? "by the wallet"
    : foreign.some((call) => call.includes("70a08231")) ? "by a public node" : "no";
  const sent = paid.length;
  await page.close({ runBeforeUnload: false });
  const again = await open(context, { wallet: "connected" });
  await again.page.goto(at, { waitUntil: "load" });
  await settled(again.page);
  await settled(again.page);
  const resumed = sent > 0 && paid.length > sent && paid.at(-1) === paid[0];
  await context.close();
  return { balance, sent, resumed, foreign: [...new Set(foreign.map((call) => call.split(" ")[0]))] };
}

const rows = { Size: [], Compressed: [], Requests: [], "First paint, slow phone": [], "Accessibility violations (axe)": [], "Without script": [], "Dark colours": [], "Content-Security-Policy": [], "Choice between two wallets": [], "Balance before a signature": [], "Tab closed after the signature": [], "Foreign hosts": [] };
for (const [name, page] of Object.entries(pages)) {
  const served = await serve(page);
  const context = await tab();
  const plain = await open(context);
  await plain.page.goto(served.url, { waitUntil: "networkidle0", timeout: 60_000 }).catch(() => {});
  const requests = plain.calls.length;
  await context.close();
  const visit = await payAndReturn(served);
  rows.Size.push(`${(page.html.length / 1000).toFixed(1)} KB`);
  rows.Compressed.push(`${(served.compressed / 1000).toFixed(1)} KB`);
  rows.Requests.push(requests);
  rows["First paint, slow phone"].push(await firstPaint(served.url));
  rows["Accessibility violations (axe)"].push(await violations(served.url));
  rows["Without script"].push(await withoutScript(served.url));
  rows["Dark colours"].push(await dark(served.url));
  rows["Content-Security-Policy"].push(await policy(served.url, page));
  rows["Choice between two wallets"].push(await choice(served.url));
  rows["Balance before a signature"].push(visit.balance);
  rows["Tab closed after the signature"].push(!visit.sent ? "no payment was sent" : visit.resumed ? "the same payment is sent again" : "forgotten: it asks for another payment");
  rows["Foreign hosts"].push(visit.foreign.join(", ") || "none");
  served.server.closeAllConnections();
  served.server.close();
  console.error(`${name} done`);
}
await browser.close();
console.log(`| | ${Object.keys(pages).join(" | ")} |\n|---|---|---|`);
for (const [row, cells] of Object.entries(rows)) console.log(`| ${row} | ${cells.join(" | ")} |`);
