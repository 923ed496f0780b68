// What the foreign sellers have in common: an express app behind somebody's paywall, which counts how often its handlers run.
import { createServer } from "node:http";
import express from "express";
import { announce } from "./chain.mjs";

// In dollars of USDC.
export const PRICES = {
  "GET /weather": "$0.01",
  "POST /report": "$0.02",
  "GET /choice": "$0.03",
  "GET /broken": "$0.01",
  "GET /dear": "$5",
};

export function open(paywall, port) {
  const runs = {};
  const ran = ({ path }) => (runs[path] = (runs[path] ?? 0) + 1);
  const app = express();
  app.get("/runs", (_, response) => response.json(runs));
  app.get("/free", (request, response) => response.json({ free: true, run: ran(request) }));
  app.use(paywall);
  app.get("/weather", (request, response) => response.json({ weather: "sunny", run: ran(request) }));
  app.post("/report", express.json(), (request, response) => response.json({ report: request.body, run: ran(request) }));
  app.get("/choice", (request, response) => response.json({ choice: "mine", run: ran(request) }));
  app.get("/metered", (request, response) => {
    response.set("Settlement-Overrides", JSON.stringify({ amount: "1858" }));
    response.json({ metered: true, run: ran(request) });
  });
  app.get("/dear", (request, response) => response.json({ dear: true, run: ran(request) }));
  app.get("/broken", (request, response) => {
    ran(request);
    response.status(500).json({ error: "broken" });
  });
  announce(createServer(app), Number(port ?? 0));
}
