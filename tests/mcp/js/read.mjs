// Lists the tools of a server and calls one without a payment, with the official client: read.mjs URL TOOL ARGUMENTS. Prints a line of JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, tool, given] = process.argv.slice(2);
const client = new Client({ name: "reader", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
// The client checks results by the schemas that it has seen.
const { tools } = await client.listTools();
const told = { tools };
try {
  told.result = await client.callTool({ name: tool, arguments: JSON.parse(given) });
} catch (error) {
  told.error = String(error);
}
console.log(JSON.stringify(told));
process.exit(0);
