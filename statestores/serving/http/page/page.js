// The page: it asks the same addresses as everybody else, and puts what comes as text, never as markup.

import { draw } from "/topology.js";

const LOOK_MS = 2000, KEPT = 60, SHOWN_CHANGES = 200;
const $ = (selector) => document.querySelector(selector);
const lags = new Map(); // "store/partition" -> the latest lags
let stores = [], current = null, view = null, following = null;

// Asking.

class Refusal extends Error {
  constructor(status, words) { super(words); this.status = status; }
}

// Integers beyond 2^53 stay as they are written: a number of JavaScript would be another one.
const exact = (_, value, context) =>
  typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source
    ? { exact: context.source } : value;

async function ask(path, parameters = {}, options = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value != null));
  const token = sessionStorage.getItem("token");
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  let answer;
  try {
    answer = await fetch(query.size ? `${path}?${query}` : path, { headers, ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The server does not answer.");
  }
  const text = await answer.text();
  if (answer.ok && !path.startsWith("/metrics")) return JSON.parse(text, exact);
  if (answer.ok) return text;
  let words = answer.statusText;
  try { words = JSON.parse(text).message ?? words; } catch { /* no document of ours */ }
  throw new Refusal(answer.status, words);
}

// Showing.

function made(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function shown(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value;
  return JSON.stringify(value, (_, each) => each).replace(/\{"exact":"(-?\d+)"\}/g, "$1");
}

const cell = (value, kind = "data") => made("td", { class: kind }, shown(value));
const time = (ms) => (Number.isSafeInteger(ms) && ms < 8.64e15 ? new Date(ms).toISOString().replace(".000Z", "Z") : shown(ms));

function table(rows, caption) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const head = made("tr", {}, ...names.map((name) => made("th", { scope: "col" }, name)));
  const body = rows.map((row) => made("tr", {}, ...names.map((name) =>
    name.endsWith("_ms") && row[name] != null ? made("td", { title: shown(row[name]) }, time(row[name])) : cell(row[name]))));
  return made("div", { class: "scroll" }, made("table", {}, made("caption", {}, caption), made("thead", {}, head), made("tbody", {}, ...body)));
}

function trouble(words) {
  $("#trouble").textContent = words ?? "";
  $("#trouble").hidden = !words;
}

// The latest value is at the right; the line below is a lag of nothing.
function spark(values) {
  const svg = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const most = Math.max(1, ...values);
  const points = values.map((value, at) => [116 - ((values.length - 1 - at) * 114) / (KEPT - 1), 21 - (value / most) * 18]);
  const words = `lag from ${values[0] ?? 0} to ${values.at(-1) ?? 0}, at most ${Math.max(0, ...values)}`;
  const picture = svg("svg", { class: "spark", viewBox: "0 0 120 24", role: "img", "aria-label": words });
  const title = svg("title", {});
  title.textContent = words;
  picture.append(title, svg("path", { class: "base", d: "M2 21H118" }));
  if (!points.length) return picture;
  picture.append(svg("polyline", { points: points.map((each) => each.join(",")).join(" ") }));
  picture.append(svg("circle", { cx: points.at(-1)[0], cy: points.at(-1)[1], r: 2.2 }));
  return picture;
}

// What is there.

function badge(words, kind) {
  if ($("#ready").textContent !== words) $("#ready").textContent = words;
  $("#ready").className = `badge ${kind}`;
}

async function look() {
  try {
    const found = await ask("/v1/stores");
    stores = found.stores;
    $("#sign-in").hidden = true;
    $("#forget").hidden = !sessionStorage.getItem("token");
    badge(found.waiting.length ? "getting ready" : "ready", found.waiting.length ? "waiting" : "good");
    $("#ready").title = found.waiting.join("\n");
    for (const store of stores) for (const part of store.here) {
      const kept = lags.get(`${store.name}/${part.partition}`) ?? [];
      kept.push(part.offset_lag ?? 0);
      lags.set(`${store.name}/${part.partition}`, kept.slice(-KEPT));
    }
    list();
    if (!view) go(location.hash);
    if (view === "store") describe();
    if (view === "instances") await instances();
    if (view === "metrics") await metrics();
    if (!$("#trouble").dataset.read) trouble(null);
  } catch (error) {
    if (error.status === 401) {
      badge("a token is needed", "waiting");
      if ($("#sign-in").hidden) {
        for (const each of document.querySelectorAll("main > section")) each.hidden = true;
        $("#sign-in").hidden = false;
        view = null;
        if (sessionStorage.getItem("token")) trouble("That is not the token.");
        sessionStorage.removeItem("token");
        $("#sign-in-form").token.focus();
      }
    } else {
      badge("no answer", "bad");
      delete $("#trouble").dataset.read;
      trouble(`${error.message} This page asks again by itself.`);
    }
  }
}

function list() {
  const wanted = stores.map((store) => `${store.name} ${store.kind}`).join();
  if ($("#stores").dataset.shown === wanted && stores.length) return;
  $("#stores").dataset.shown = wanted;
  $("#stores").replaceChildren(...stores.map((store) => {
    const button = made("button", { type: "button", "data-store": store.name }, store.name, made("small", {}, store.kind));
    return made("li", {}, button);
  }));
  if (!stores.length) $("#stores").replaceChildren(made("li", { class: "facts" }, "none"));
  mark();
}

function mark() {
  for (const button of document.querySelectorAll("nav button")) {
    const on = view === "store" ? button.dataset.store === current : button.dataset.view === view;
    if (on) button.setAttribute("aria-current", "page"); else button.removeAttribute("aria-current");
  }
}

function go(hash) {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const wanted = parameters.get("view"), name = parameters.get("store") ?? stores[0]?.name;
  unfollow();
  delete $("#trouble").dataset.read;
  trouble(null);
  if (["instances", "topology", "metrics"].includes(wanted)) view = wanted;
  else if (stores.some((store) => store.name === name)) {
    view = "store";
    if (current !== name) {
      current = name;
      for (const result of document.querySelectorAll(".result")) result.replaceChildren();
      $("#changes").hidden = true;
      $("#changes-state").textContent = "";
    }
  } else {
    view = "empty";
    if (stores.length) { $("#trouble").dataset.read = "1"; trouble(`There is no store ${name}.`); }
  }
  for (const each of document.querySelectorAll("main > section")) each.hidden = each.id !== `view-${view}`;
  if (view === "empty" && stores.length) $("#view-empty").hidden = true;
  mark();
  if (view === "store") { fields(); describe(); select(parameters.get("tab") ?? "value", false); }
  if (view === "topology") topology();
  if (view === "instances") instances();
  if (view === "metrics") metrics();
}

function fields() {
  const kind = stores.find((store) => store.name === current).kind;
  for (const each of document.querySelectorAll("[data-kinds]")) {
    each.hidden = !each.dataset.kinds.split(" ").includes(kind);
    for (const input of each.querySelectorAll("input")) input.disabled = each.hidden;
  }
  $("#panel-history [name=key]").required = kind !== "versioned"; // which have histories of ranges
}

function describe() {
  const store = stores.find((each) => each.name === current);
  if (!store) return;
  $("#store-title").textContent = store.name;
  $("#store-facts").textContent = `${store.kind} · keys ${store.key} · values ${store.value} · ${store.partitions} partitions, by ${store.partitioner}`;
  $("#partitions tbody").replaceChildren(...store.here.map((part) => made("tr", {},
    cell(part.partition, "number"), made("td", { class: part.role === "active" ? "good" : part.role === "standby" ? "" : "waiting" }, part.role),
    cell(part.current_offset, "number"), cell(part.end_offset, "number"), cell(part.offset_lag, "number"),
    made("td", {}, spark(lags.get(`${store.name}/${part.partition}`) ?? [])))));
  if (!store.here.length) $("#partitions tbody").replaceChildren(made("tr", {}, made("td", { colspan: "6" }, "No partition of it is here.")));
}

// Reading a store.

function select(name, focus = true) {
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const on = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", String(on));
    tab.tabIndex = on ? 0 : -1;
    $(`#${tab.getAttribute("aria-controls")}`).hidden = !on;
    if (on && focus) tab.focus();
  }
  if (name !== "changes") unfollow();
}

async function read(form, more = {}) {
  const kind = form.dataset.read, result = form.parentElement.querySelector(".result"), store = current;
  const asked = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value === "on" ? "true" : value]));
  result.setAttribute("aria-busy", "true");
  try {
    const found = await ask(`/v1/stores/${encodeURIComponent(store)}/${kind}`, { ...asked, ...more });
    if (store !== current) return;
    const fresh = found.rows.length
      ? [table(found.rows, `${found.rows.length} ${found.rows.length === 1 ? "row" : "rows"}${found.more ? ", and there are more" : ""}`)]
      : [made("p", { class: "empty" }, kind === "value" ? `There is no value of ${shown(found.key)}.` : "There are no such rows.")];
    if (found.next) {
      const button = made("button", { type: "button", class: "more" }, "Next rows");
      button.addEventListener("click", () => read(form, { first: found.next }));
      fresh.push(button);
    }
    result.replaceChildren(...fresh);
  } catch (error) {
    result.replaceChildren(made("p", { class: "trouble" }, error.message));
  } finally {
    result.removeAttribute("aria-busy");
  }
}

function unfollow() {
  following?.abort();
  following = null;
  $("#follow").setAttribute("aria-pressed", "false");
  $("#follow").textContent = "Follow";
}

async function follow(partition) {
  unfollow();
  const mine = following = new AbortController(), store = current, body = $("#changes tbody");
  $("#follow").setAttribute("aria-pressed", "true");
  $("#follow").textContent = "Stop";
  body.replaceChildren();
  let where = { last_changes: 20 };
  while (!mine.signal.aborted) {
    try {
      const found = await ask(`/v1/stores/${encodeURIComponent(store)}/changes`, { partition, limit: SHOWN_CHANGES, ...where }, { signal: mine.signal });
      if (mine.signal.aborted) return;
      for (const row of body.querySelectorAll(".fresh")) row.className = "";
      for (const change of found.changes) {
        const { offset, operation, key, value, partition: _, ...times } = change;
        const row = made("tr", where.from === undefined ? {} : { class: "fresh" }, cell(offset, "number"), made("td", {}, operation), cell(key), cell(value),
          cell(Object.entries(times).filter(([, each]) => each != null).map(([name, each]) => `${name} ${shown(each)}`).join(" ")));
        body.prepend(row);
      }
      while (body.rows.length > SHOWN_CHANGES) body.lastElementChild.remove();
      $("#changes").hidden = !body.rows.length;
      $("#changes-state").textContent = body.rows.length ? `Following partition ${partition}, at offset ${found.next}.` : `Partition ${partition} has no changes yet; they come as they are committed.`;
      where = { from: found.next, wait_ms: 15000 };
    } catch (error) {
      if (mine.signal.aborted) return;
      $("#changes-state").textContent = error.message;
      unfollow();
    }
  }
}

// The application.

async function instances() {
  const { instances: known } = await ask("/v1/metadata");
  const rows = known.flatMap((each) => {
    const of = Object.entries(each.partitions);
    return (of.length ? of : [["", {}]]).map(([store, parts]) => {
      const with_ = (...roles) => Object.entries(parts).filter(([, part]) => roles.includes(part.role)).map(([number]) => number).join(", ");
      const lags = Object.values(parts).filter((part) => part.current_offset != null && part.end_offset != null).map((part) => Math.max(0, part.end_offset - part.current_offset));
      return made("tr", {}, cell(each.instance), cell(each.host), cell(each.http), cell(store), cell(with_("active")), cell(with_("standby")), cell(with_("restoring", "promoting")), cell(lags.length ? Math.max(...lags) : null, "number"));
    });
  });
  $("#instances tbody").replaceChildren(...rows);
}

async function topology() {
  const { mermaid } = await ask("/v1/topology");
  $("#topology-none").hidden = Boolean(mermaid);
  $("#topology-text").hidden = !mermaid;
  $("#topology-picture").hidden = !mermaid;
  if (!mermaid) return;
  $("#topology-picture").replaceChildren(draw(mermaid));
  $("#topology-text pre").textContent = mermaid;
}

async function metrics() {
  const filter = $("#metrics-form").filter.value.toLowerCase();
  const lines = (await ask("/metrics")).split("\n").filter((line) => line && !line.startsWith("#") && line.toLowerCase().includes(filter));
  $("#metrics tbody").replaceChildren(...lines.slice(0, 500).map((line) => {
    const [, name, labels, value] = /^(\w+)\{(.*)\} (\S+)$/.exec(line) ?? [, line, "", ""];
    return made("tr", {}, cell(name), cell(labels.replaceAll('"', "").replaceAll(",", "  ")), cell(value, "number"));
  }));
  if (!lines.length) $("#metrics tbody").replaceChildren(made("tr", {}, made("td", { colspan: "3" }, "There are no such metrics.")));
}

// Doing.

$("nav").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  location.hash = button.dataset.store ? `store=${encodeURIComponent(button.dataset.store)}` : `view=${button.dataset.view}`;
});
window.addEventListener("hashchange", () => { if (stores.length || view) go(location.hash); });
$("#tabs").addEventListener("click", (event) => {
  const tab = event.target.closest("[role=tab]");
  if (tab) select(tab.id.slice(4));
});
$("#tabs").addEventListener("keydown", (event) => {
  const tabs = [...document.querySelectorAll("[role=tab]")], at = tabs.indexOf(document.activeElement);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
  if (to === undefined || at < 0) return;
  event.preventDefault();
  select(tabs[(to + tabs.length) % tabs.length].id.slice(4));
});
for (const form of document.querySelectorAll("form[data-read]")) {
  form.addEventListener("submit", (event) => { event.preventDefault(); read(form); });
}
$("#changes-form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (following) unfollow(); else follow(event.target.partition.value);
});
$("#metrics-form").addEventListener("submit", (event) => event.preventDefault());
$("#metrics-form").addEventListener("input", () => metrics());
$("#sign-in-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", event.target.token.value);
  event.target.reset();
  $("#sign-in").hidden = true;
  trouble(null);
  look();
});
$("#forget").addEventListener("click", () => { sessionStorage.removeItem("token"); location.reload(); });

await look();
setInterval(look, LOOK_MS);
