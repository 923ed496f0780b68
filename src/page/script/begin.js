"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const HASH = /0x[0-9a-f]{64}(?![0-9a-f])/i;
  const ACCEPT = "text/html,application/json;q=0.9,*/*;q=0.8";

  // What can be paid how, on any of the networks.
  const takes = (way) => data.chains.some((chain) => chain[way]);
  const chainOf = (id) => data.chains.find((chain) => chain.id === id) ?? data.chains[0];

  // By the seller's clock.
  const skew = data.issued - Date.now() / 1000;
  const now = () => Math.floor(Date.now() / 1000 + skew);
  // A text is named by `$` and its key. Only the page's own texts are sent, and a number stands for each name.
  const fill = (text, values) => text.replace(/\{(\w+)\}/g, (all, name) => ({ ...data.words, ...values })[name] ?? all);
  const say = (key, values) => fill(data.texts[key] ?? "", values);

