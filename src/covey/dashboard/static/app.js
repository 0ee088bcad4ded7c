// The page of the dashboard: what it shows comes from /api/stream, every moment, and from other pages when they are opened.
// No library: the pictures are SVG, made here. Whatever comes from brokers is put in as text, never as HTML.
"use strict";

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function el(name, attributes = {}, ...children) {
  const found = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, handler] of Object.entries(value)) found.addEventListener(event, handler);
    else if (value !== null && value !== undefined && value !== false) found.setAttribute(key, value);
  }
  found.append(...children.filter((child) => child !== null && child !== undefined));
  return found;
}

function svg(name, attributes = {}, ...children) {
  const found = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined) found.setAttribute(key, value);
  found.append(...children);
  return found;
}

const number = (value) => {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toPrecision(3)} M`;
  if (size >= 1e4) return `${(value / 1e3).toPrecision(3)} k`;
  return Number(size >= 100 ? value.toFixed(0) : value.toPrecision(3)).toLocaleString("en");
};
const bytes = (value) => (value >= 1 << 20 ? `${number(value / (1 << 20))} MiB` : value >= 1024 ? `${number(value / 1024)} KiB` : `${number(value)} B`);
const time = (seconds) => (seconds === null || seconds === undefined ? "–" : seconds < 1e-3 ? `${number(seconds * 1e6)} µs` : seconds < 1 ? `${number(seconds * 1e3)} ms` : `${number(seconds)} s`);
const duration = (seconds) => (seconds >= 172800 ? `${Math.floor(seconds / 86400)} days` : seconds >= 7200 ? `${Math.floor(seconds / 3600)} h` : seconds >= 120 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds)} s`);
const percent = (share) => (share === null || share === undefined ? "–" : `${(share * 100).toFixed(1)}%`);

const state = {
  role: null, view: null, map: { version: 0, places: {}, groups: {} }, page: "map", chosen: null, way: null, pressed: false,
  pan: { x: 0, y: 0, scale: 60, fitted: false }, source: null,
};

// -- asking ---------------------------------------------------------------------------------------------------

async function ask(path, options = {}) {
  const answer = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  const said = await answer.json().catch(() => ({ error: `status ${answer.status}` }));
  if (answer.status === 401 && path !== "/api/login") showLogin();
  if (!answer.ok) throw new Error(said.error || `status ${answer.status}`);
  return said;
}

const post = (path, body) => ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

function confirmed(text, word) {
  $("confirm-text").textContent = text;
  $("confirm-yes").textContent = word;
  const dialog = $("confirm");
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

// -- logging in -----------------------------------------------------------------------------------------------

function showLogin() {
  if (state.source) state.source.close();
  state.source = null;
  state.role = null;
  $("top").hidden = true;
  for (const page of document.querySelectorAll(".page")) page.hidden = true;
  $("login").hidden = false;
  $("token").focus();
}

async function logIn(token) {
  try {
    enter((await post("/api/login", { token })).role);
    $("token").value = "";
    $("login-error").textContent = "";
  } catch (error) {
    $("login-error").textContent = error.message;
  }
}

function enter(role) {
  state.role = role;
  $("login").hidden = true;
  $("top").hidden = false;
  $("install-form").hidden = role !== "admin";
  state.source = new EventSource("/api/stream");
  state.source.onmessage = (message) => update(JSON.parse(message.data));
  state.source.onerror = () => { $("summary").textContent = "not connected to the dashboard"; $("summary").className = "bad"; };
  open_page();
}

async function begin() {
  const given = /^#token=(.+)$/.exec(location.hash);
  if (given) {
    history.replaceState(null, "", "/#map");
    await logIn(decodeURIComponent(given[1]));
    if (state.role) return;
  }
  const { role } = await ask("/api/session").catch(() => ({ role: null }));
  if (role) enter(role);
  else showLogin();
}

// -- what is new ----------------------------------------------------------------------------------------------

async function update(view) {
  if (view.map !== state.map.version) {
    state.map = await ask("/api/map");
    state.pan.fitted = false;
  }
  const names = view.brokers.map((row) => row.name).join("\n");
  const is_other = !state.view || names !== state.view.brokers.map((row) => row.name).join("\n");
  state.view = view;
  if (is_other) nameBrokers(view.brokers.map((row) => row.name));
  const totals = view.totals;
  const summary = $("summary");
  summary.className = "";
  summary.replaceChildren(
    `${totals.brokers} brokers, `,
    totals.down ? el("span", { class: "bad" }, `${totals.down} down, `) : "",
    `${number(totals.published)} events/s`,
  );
  // Until the map of a larger network is made, those who came last have no place on it.
  view.brokers_drawn = view.brokers.filter((row) => row.name in state.map.places);
  view.links_drawn = view.links.filter((link) => link.a in state.map.places && link.b in state.map.places);
  if (state.page === "map") drawMap();
  if (state.page === "traffic") drawNumbers();
  document.body.dataset.at = view.at;
}

function options(select, names, first) {
  const before = select.value;
  select.replaceChildren(...(first === undefined ? [] : [el("option", { value: "" }, first)]), ...names.map((name) => el("option", { value: name }, name)));
  if ([...select.options].some((option) => option.value === before)) select.value = before;
}

function nameBrokers(names) {
  options($("traffic-broker"), names, "all brokers");
  options($("table-broker"), names, "all");
  options($("start"), names);
  options($("plan-broker"), names);
  $("broker-names").replaceChildren(...names.map((name) => el("option", { value: name })));
}

const PAGES = ["map", "traffic", "tables", "plans", "clients"];
let timer = 0;

function open_page() {
  if (!state.role) return;
  const wanted = location.hash.slice(1);
  state.page = PAGES.includes(wanted) ? wanted : "map";
  for (const page of PAGES) $(`page-${page}`).hidden = page !== state.page;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${state.page}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  clearInterval(timer);
  const open = { map: drawMap, traffic: drawTraffic, tables: () => {}, plans: drawPlans, clients: drawClients }[state.page];
  open();
  if (state.page === "traffic") timer = setInterval(drawTraffic, 5000);
  if (state.page === "plans") timer = setInterval(drawPlans, 3000);
  if (state.page === "clients") timer = setInterval(drawClients, 2000);
}

// -- the map --------------------------------------------------------------------------------------------------

function fit() {
  const box = $("map").getBoundingClientRect();
  const places = Object.values(state.map.places);
  if (!places.length || !box.width) return;
  const xs = places.map((place) => place[0]), ys = places.map((place) => place[1]);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const margin = Math.min(70, box.width / 8);
  const scale = Math.min((box.width - 2 * margin) / Math.max(right - left, 0.5), (box.height - 2 * margin) / Math.max(bottom - top, 0.5), 220);
  state.pan = { scale, x: box.width / 2 - (scale * (left + right)) / 2, y: box.height / 2 - (scale * (top + bottom)) / 2, fitted: true, whole: true };
}

const at = (name) => {
  const place = state.map.places[name] || [0, 0];
  return [place[0] * state.pan.scale + state.pan.x, place[1] * state.pan.scale + state.pan.y];
};

function heat(link) {
  if ($("colour").value === "delay") return link.delay_s > 1 ? "hot" : link.delay_s > 0.1 ? "warm" : "";
  return link.queue > 1000 ? "hot" : link.queue > 50 ? "warm" : "";
}

// Whether a line from (x1, y1) to (x2, y2) crosses a box [x, y, width, height].
function crosses([x1, y1, x2, y2], [x, y, width, height]) {
  let [from, to] = [0, 1];
  for (const [start, step, low, high] of [[x1, x2 - x1, x, x + width], [y1, y2 - y1, y, y + height]]) {
    if (step === 0) { if (start < low || start > high) return false; continue; }
    const [one, two] = [(low - start) / step, (high - start) / step];
    [from, to] = [Math.max(from, Math.min(one, two)), Math.min(to, Math.max(one, two))];
  }
  return from <= to;
}

// Greedy, the most important first: of the places that a label may have, the one that fewest lines cross; a label that would
// touch another one everywhere is left out. Boxes are [x, y, width, height], lines [x1, y1, x2, y2]. The cells keep it fast.
function placeLabels(wanted, lines = [], taken = []) {
  const kept = [], cells = new Map(), SIZE = 80;
  const keysOf = ([x, y, width, height]) => {
    const keys = [];
    for (let i = Math.floor(x / SIZE); i <= Math.floor((x + width) / SIZE); i++)
      for (let j = Math.floor(y / SIZE); j <= Math.floor((y + height) / SIZE); j++) keys.push(`${i},${j}`);
    return keys;
  };
  const take = (box) => { for (const key of keysOf(box)) { if (cells.has(key)) cells.get(key).push(box); else cells.set(key, [box]); } };
  const isFree = (box) => { const [x, y, width, height] = box; return !keysOf(box).some((key) => (cells.get(key) || []).some(([a, b, c, d]) => x < a + c && a < x + width && y < b + d && b < y + height)); };
  taken.forEach(take);
  for (const label of [...wanted].sort((one, two) => two.weight - one.weight || (one.text < two.text ? -1 : 1))) {
    let best = null, fewest = Infinity;
    for (const place of label.places || [label]) {
      if (fewest === 0 || !isFree(place.box)) continue;
      const crossed = lines.reduce((sum, line) => sum + crosses(line, place.box), 0);
      if (crossed < fewest) [best, fewest] = [place, crossed];
    }
    if (!best) continue;
    take(best.box);
    kept.push({ ...label, ...best });
  }
  return kept;
}

// Where a label may be beside a mark: below, above, right, left. Its text is written around the middle of its box.
function around(x, y, radius, width, size) {
  const beside = radius + 3 + width / 2;
  return [[0, radius + size], [0, -radius - 5], [beside, size * 0.35], [-beside, size * 0.35]].map(([dx, dy]) => ({ x: x + dx, y: y + dy, box: [x + dx - width / 2, y + dy - size + 1, width, size + 3] }));
}

const textWidth = (() => {
  const context = document.createElement("canvas").getContext("2d");
  const known = new Map();
  return (text, size) => {
    const key = `${size} ${text}`;
    if (!known.has(key)) { context.font = `${size}px system-ui, "Segoe UI", "DejaVu Sans", sans-serif`; known.set(key, context.measureText(text).width); }
    return known.get(key);
  };
})();

function drawMap() {
  const view = state.view;
  if (!view || state.page !== "map") return;
  if (!state.pan.fitted) fit();
  const trees = Object.keys(view.trees);
  const listed = ["", ...(trees.length > 1 ? ["all"] : []), ...trees].join();
  if ($("tree").dataset.listed !== listed) {
    options($("tree"), [...(trees.length > 1 ? ["all"] : []), ...trees], "links");
    for (const option of $("tree").options) if (/^\d+$/.test(option.value)) option.textContent = `tree ${option.value}`;
    else if (option.value === "all") option.textContent = "all trees";
    $("tree").dataset.listed = listed;
  }
  const count = view.brokers.length, radius = Math.max(3.5, Math.min(12, state.pan.scale / 6));
  const canvas = $("map");
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.broker : undefined;
  canvas.replaceChildren(...hulls(), ...drawnLinks(view), ...drawnBrokers(view, radius), ...labels(view, radius, count), ...hopNumbers());
  if (focused !== undefined) {
    const again = [...canvas.querySelectorAll(".broker")].find((one) => one.dataset.broker === focused);
    if (again) again.focus({ preventScroll: true });
  }
  drawDetails();
  drawLegend();
}

function hulls() {
  return Object.entries(state.map.groups).map(([name, group]) =>
    svg("polygon", { class: "hull", points: group.hull.map(([x, y]) => `${x * state.pan.scale + state.pan.x},${y * state.pan.scale + state.pan.y}`).join(" ") }, svg("title", {}, name)));
}

function drawnLinks(view) {
  const tree = $("tree").value, on = new Set();
  for (const [name, pairs] of Object.entries(view.trees)) if (tree === name || tree === "all") for (const [a, b] of pairs) on.add(`${a}\n${b}`);
  const way = new Set((state.way ? state.way.hops : []).filter((hop) => hop.goes).map((hop) => [hop.from, hop.to].sort().join("\n")));
  const lines = [], hits = [];
  for (const link of view.links_drawn) {
    const key = `${link.a}\n${link.b}`, [x1, y1] = at(link.a), [x2, y2] = at(link.b);
    const rate = link.ab + link.ba;
    const classes = ["link", link.state, heat(link)];
    if (tree && on.has(key)) classes.push("tree");
    if ((tree && !on.has(key)) || (state.way && !way.has(key))) classes.push("off");
    if (way.has(key)) classes.push("way");
    if (state.chosen && state.chosen.link === key) classes.push("chosen");
    const width = (way.has(key) ? 2 : 0) + (1.5 + Math.min(9, 2 * Math.log10(1 + rate))) * Math.max(0.35, Math.min(1, state.pan.scale / 60));
    const text = `${link.a} – ${link.b}: ${link.state}, ${number(rate)} events/s, ${number(link.queue)} queued`;
    lines.push(svg("line", { class: classes.filter(Boolean).join(" "), x1, y1, x2, y2, "stroke-width": width.toFixed(1), "data-link": key.replace("\n", "|") }));
    hits.push(svg("line", { class: "hit", x1, y1, x2, y2, "data-key": key }, svg("title", {}, text)));
  }
  return [...lines, ...hits];
}

function drawnBrokers(view, radius) {
  const way = state.way ? new Set(state.way.visited) : null;
  return view.brokers_drawn.map((row) => {
    const [x, y] = at(row.name);
    const classes = ["broker", row.state, row.congested ? "congested" : "", way ? (way.has(row.name) ? "way" : "faded") : "", state.chosen && state.chosen.broker === row.name ? "chosen" : ""];
    const said = row.state === "up" ? `${row.name}: ${number(row.published + row.received)} events/s in, ${row.clients} clients` : `${row.name}: ${row.state}`;
    const found = svg("g", { class: classes.filter(Boolean).join(" "), transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`, tabindex: 0, role: "button", "aria-label": said, "data-broker": row.name },
      svg("circle", { r: radius }), svg("title", {}, said));
    if (row.state === "down") {
      const arm = radius * 0.45;
      found.append(svg("path", { class: "mark", d: `M${-arm} ${-arm}L${arm} ${arm}M${arm} ${-arm}L${-arm} ${arm}` }));
    }
    return found;
  });
}

function labels(view, radius, count) {
  // Where groups have labels, brokers that are close together have none before somebody zooms in, but for those that matter.
  const size = 13, wanted = [], is_crowded = Object.keys(state.map.groups).length > 0 && state.pan.scale < 40;
  for (const [name, group] of Object.entries(state.map.groups)) {
    const places = group.brokers.map(at), width = textWidth(name, 15) + 8;
    const x = places.reduce((sum, place) => sum + place[0], 0) / places.length, ys = places.map((place) => place[1]);
    const above = Math.min(...ys) - radius - 10, below = Math.max(...ys) + radius + 22;
    wanted.push({ text: name, kind: "hull-label", x, y: above, size: 15, weight: 1e6 + group.brokers.length, places: [above, below].map((y) => ({ x, y, box: [x - width / 2, y - 14, width, 19] })) });
  }
  for (const row of view.brokers_drawn) {
    const [x, y] = at(row.name), width = textWidth(row.name, size) + 6;
    const matters = (row.state === "down" ? 4e6 : 0) + (state.chosen && state.chosen.broker === row.name ? 8e6 : 0) + (state.way && state.way.visited.includes(row.name) ? 2e6 : 0);
    if (is_crowded && !matters) continue;
    const weight = matters + (row.published || 0) + (row.received || 0) + (row.clients || 0);
    wanted.push({ text: row.name, kind: `label ${row.state}`, x, y, size, weight, places: around(x, y, radius, width, size) });
  }
  const box = $("map").getBoundingClientRect();
  const isSeen = ({ x, y }) => x > -50 && x < box.width + 50 && y > -20 && y < box.height + 20;
  // Labels avoid brokers as they avoid links, as far as there is room.
  const marks = view.brokers_drawn.map((row) => at(row.name)).map(([x, y]) => ({ x, y })).filter(isSeen).map(({ x, y }) => [x - radius, y, x + radius, y]);
  const lines = view.links_drawn.map((link) => [...at(link.a), ...at(link.b)]).filter((line) => crosses(line, [0, 0, box.width, box.height]));
  const numbers = hops().map(({ x, y }) => [x - 12, y - 12, 24, 24]);
  return placeLabels(wanted.filter(isSeen), [...lines, ...marks], numbers).map((label) => svg("text", { class: label.kind, x: label.x.toFixed(1), y: label.y.toFixed(1), "font-size": label.size }, label.text));
}

// The hops of the event that is explained: where on the map, and how many links it has crossed.
function hops() {
  if (!state.way) return [];
  const depth = new Map([[state.way.start, 0]]), found = [];
  for (const hop of state.way.hops.filter((one) => one.goes)) {
    if (!depth.has(hop.to)) depth.set(hop.to, (depth.get(hop.from) || 0) + 1);
    if (depth.get(hop.to) !== (depth.get(hop.from) || 0) + 1) continue;
    const [x1, y1] = at(hop.from), [x2, y2] = at(hop.to);
    found.push({ x: (x1 + x2) / 2, y: (y1 + y2) / 2, depth: depth.get(hop.to) });
  }
  return found;
}

const hopNumbers = () => hops().flatMap(({ x, y, depth }) => [svg("circle", { class: "hop", cx: x, cy: y, r: 11 }), svg("text", { class: "hop-number", x, y: y + 4.5, "font-size": 13 }, String(depth))]);

function choose(what) {
  state.chosen = what;
  drawMap();
}

function list(rows) {
  return el("dl", {}, ...rows.filter(Boolean).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]));
}

function drawDetails() {
  const box = $("details"), view = state.view;
  box.hidden = !state.chosen && !state.way;
  if (box.hidden) return;
  const close = el("button", { class: "small", type: "button", on: { click: () => { state.chosen = null; state.way = null; drawMap(); } } }, "Close");
  if (!state.chosen) {
    const got = state.way.receivers.length;
    box.replaceChildren(el("header", {}, el("h3", {}, `Event from ${state.way.start}`), close),
      el("p", {}, `Reaches ${state.way.visited.length} of ${view.brokers.length} brokers and ${number(state.way.receivers_total)} subscriptions.`),
      el("ol", {}, ...state.way.hops.filter((hop) => hop.goes).slice(0, 60).map((hop) => el("li", {}, `${hop.from} → ${hop.to}: ${hop.reason}`))),
      el("p", { class: "note" }, got ? "" : "Nobody gets it."));
    return;
  }
  if (state.chosen.broker) {
    const row = view.brokers.find((one) => one.name === state.chosen.broker);
    if (!row) { box.hidden = true; return; }
    const parts = [el("header", {}, el("h3", {}, row.name), close), el("p", { class: row.state === "up" ? "good" : "bad" }, row.state + (row.error ? `: ${row.error}` : ""))];
    if (row.state === "up") parts.push(list([
      ["published", `${number(row.published)}/s`], ["received", `${number(row.received)}/s`], ["forwarded", `${number(row.forwarded)}/s`], ["delivered", `${number(row.delivered)}/s`],
      ["for nobody, at least", `${number(row.nobody)}/s`], ["control messages", `${number(row.control)}/s`], ["queued", number(row.queue)], ["stored, waiting", number(row.stored)], ["inbox", `${number(row.inbox)} frames${row.congested ? ", congested" : ""}`],
      ["clients", number(row.clients)], ["subscriptions", number(row.subscriptions)], ["routing entries", number(row.entries)], ["processor", percent(row.cpu)], ["memory, at most", bytes(row.memory_bytes)],
      ["strategy", row.strategy], ["plan", row.plan ? `version ${row.plan}` : "none"], ["up for", duration(row.uptime_s)], ["version", row.version]]));
    const links = view.links.filter((link) => link.a === row.name || link.b === row.name);
    parts.push(el("h3", {}, links.length === 1 ? "1 link" : `${links.length} links`), el("ul", {}, ...links.slice(0, 50).map((link) => el("li", { class: link.state === "down" ? "bad" : "" }, `${link.a === row.name ? link.b : link.a}: ${link.state}, ${number(link.ab + link.ba)}/s`))));
    parts.push(el("button", { type: "button", on: { click: () => { $("table-broker").value = row.name; location.hash = "#tables"; showTable(); } } }, "Its tables"));
    box.replaceChildren(...parts);
    return;
  }
  const link = view.links.find((one) => `${one.a}\n${one.b}` === state.chosen.link);
  if (!link) { box.hidden = true; return; }
  const trees = Object.entries(view.trees).filter(([, pairs]) => pairs.some(([a, b]) => a === link.a && b === link.b)).map(([name]) => name);
  box.replaceChildren(el("header", {}, el("h3", {}, `${link.a} – ${link.b}`), close), el("p", { class: link.state === "down" ? "bad" : "good" }, link.state),
    list([[`${link.a} → ${link.b}`, `${number(link.ab)} events/s`], [`${link.b} → ${link.a}`, `${number(link.ba)} events/s`], ["bytes", `${bytes(link.bytes)}/s`], ["queued", `${number(link.queue)} events`], ["wait for the queue", time(link.delay_s)], ["trees", trees.join(", ") || "none"]]));
}

function drawLegend() {
  const by = $("colour").value;
  if ($("legend").dataset.by === by) return;
  $("legend").dataset.by = by;
  const line = (kind, width) => svg("svg", { width: 34, height: 12, "aria-hidden": "true" }, svg("line", { class: `link ${kind}`, x1: 2, y1: 6, x2: 32, y2: 6, "stroke-width": width }));
  const dot = (kind) => { const g = svg("g", { class: `broker ${kind}` }, svg("circle", { cx: 8, cy: 8, r: 6 })); return svg("svg", { width: 16, height: 16, "aria-hidden": "true" }, g); };
  const [warm, hot] = by === "queue" ? ["more than 50 queued", "more than 1,000 queued"] : ["waits more than 0.1 s", "waits more than 1 s"];
  const rows = [[dot("up"), "up"], [dot("congested"), "congested"], [dot("down"), "down"], [dot("unknown"), "not watched"], [line("", 2), "few events"], [line("", 8), "many events/s"], [line("warm", 3), warm], [line("hot", 3), hot], [line("down", 2), "down"]];
  $("legend").replaceChildren(...rows.map(([mark, text]) => el("li", {}, mark, text)));
}

function zoom(factor, x, y) {
  const box = $("map").getBoundingClientRect(), pan = state.pan;
  const [cx, cy] = [x === undefined ? box.width / 2 : x, y === undefined ? box.height / 2 : y];
  const scale = Math.max(4, Math.min(600, pan.scale * factor));
  state.pan = { scale, x: cx - ((cx - pan.x) * scale) / pan.scale, y: cy - ((cy - pan.y) * scale) / pan.scale, fitted: true };
  drawMap();
}

function find(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted || !state.view) return;
  const names = state.view.brokers.map((row) => row.name);
  const name = names.find((one) => one.toLowerCase() === wanted) || names.find((one) => one.toLowerCase().includes(wanted));
  if (!name) return;
  const box = $("map").getBoundingClientRect(), place = state.map.places[name];
  const scale = Math.max(state.pan.scale, 90);
  state.pan = { scale, x: box.width / 2 - place[0] * scale, y: box.height / 2 - place[1] * scale, fitted: true };
  choose({ broker: name });
}

function watchPointer() {
  const canvas = $("map"), fingers = new Map();
  let moved = 0;
  canvas.addEventListener("pointerdown", (event) => { fingers.set(event.pointerId, [event.clientX, event.clientY]); moved = 0; });
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const [dx, dy] = [event.clientX - before[0], event.clientY - before[1]];
    moved += Math.abs(dx) + Math.abs(dy);
    if (moved < 4) return;
    if (fingers.size === 1) { state.pan.x += dx; state.pan.y += dy; state.pan.whole = false; canvas.classList.add("dragging"); }
    else {
      const other = [...fingers].find(([id]) => id !== event.pointerId)[1], box = canvas.getBoundingClientRect();
      const gap = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]);
      zoom(gap([event.clientX, event.clientY]) / Math.max(gap(before), 1), other[0] - box.left, other[1] - box.top);
    }
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    drawMap();
  });
  // What is drawn is replaced all the time, so that a click may begin on one element and end on the next: the map itself listens.
  canvas.addEventListener("pointerup", (event) => {
    const found = moved < 4 && fingers.has(event.pointerId) ? document.elementFromPoint(event.clientX, event.clientY) : null;
    const broker = found && found.closest("[data-broker]"), link = found && found.closest("[data-key]");
    if (broker) choose({ broker: broker.dataset.broker });
    else if (link) choose({ link: link.dataset.key });
  });
  canvas.addEventListener("keydown", (event) => {
    const broker = event.target.closest("[data-broker]");
    if (broker && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); choose({ broker: broker.dataset.broker }); }
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) canvas.addEventListener(name, (event) => { fingers.delete(event.pointerId); canvas.classList.remove("dragging"); });
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); const box = canvas.getBoundingClientRect(); zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, event.clientX - box.left, event.clientY - box.top); }, { passive: false });
  // Whoever has moved the map keeps the part that is in view.
  new ResizeObserver(() => { if (state.page === "map" && state.view) { if (state.pan.whole) state.pan.fitted = false; drawMap(); } }).observe(canvas);
}

// -- curves ---------------------------------------------------------------------------------------------------

// How wide a picture in a box is drawn, so that its text is neither stretched nor shrunk.
function widthFor(box) {
  const style = getComputedStyle(box), columns = style.gridTemplateColumns.split(" ");
  const width = style.display === "grid" ? parseFloat(columns[0]) : box.getBoundingClientRect().width;
  return Math.max(240, Math.floor((width || 640) - 2 * parseFloat(style.fontSize)));
}

// Lines over time, or over whatever `marks` name: [share of the width, text]. `events` are vertical lines: [place, class, title].
function chart(box, title, unit, series, marks, bursts = [], events = []) {
  const width = widthFor(box), height = 190, [left, right, top, bottom] = [46, 10, 10, 24];
  const count = Math.max(2, ...Object.values(series).map((values) => values.length));
  const nice = niceTop(Math.max(...Object.values(series).flat(), 0) || 1);
  const x = (place) => left + ((width - left - right) * place) / (count - 1), y = (value) => height - bottom - ((height - top - bottom) * value) / nice;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}, ${unit}` });
  for (const [first, last] of bursts) picture.append(svg("rect", { class: "burst", x: x(Math.max(0, first - 0.5)), y: top, width: Math.max(4, Math.min(width - right, x(last + 0.5)) - x(Math.max(0, first - 0.5))), height: height - top - bottom }, svg("title", {}, "burst")));
  for (const share of [0, 0.5, 1]) {
    picture.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: y(nice * share), y2: y(nice * share) }));
    picture.append(svg("text", { x: left - 6, y: y(nice * share) + 4, "text-anchor": "end" }, number(nice * share)));
  }
  for (const [share, text] of marks) picture.append(svg("text", { x: x((count - 1) * share), y: height - 6, "text-anchor": ["start", "middle", "end"][share * 2] }, text));
  for (const [place, kind, text] of events) picture.append(svg("line", { class: kind, x1: x(place), x2: x(place), y1: top, y2: height - bottom }, svg("title", {}, text)));
  Object.entries(series).forEach(([, values], place) => picture.append(svg("polyline", { class: `s${place + 1}`, points: values.map((value, i) => `${x(i + count - values.length).toFixed(1)},${y(value).toFixed(1)}`).join(" ") })));
  const key = Object.keys(series).map((name, place) => el("span", { class: "key" }, el("i", { class: `k${place + 1}` }), `${name} ${number(series[name].at(-1) ?? 0)}`));
  if (bursts.length) key.push(el("span", { class: "key" }, el("i", { class: "block" }), `${bursts.length} burst${bursts.length > 1 ? "s" : ""}`));
  for (const kind of new Set(events.map((one) => one[1]))) key.push(el("span", { class: "key" }, el("i", { class: `upright ${kind}` }), { installed: "plan installed", back: "plan taken back" }[kind]));
  return el("figure", { class: "chart" }, el("figcaption", {}, `${title}, ${unit}`, ...key), picture);
}

// The axis of the last hour.
function ago(series, step_s) {
  const span = step_s * (Math.max(2, ...Object.values(series).map((values) => values.length)) - 1);
  return [[0, `−${duration(span)}`], [0.5, `−${duration(span / 2)}`], [1, "now"]];
}

function niceTop(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= most * 0.999) || most;
}

function fill(table, columns, rows, empty) {
  if (!rows.length) { table.replaceChildren(el("tbody", {}, el("tr", {}, el("td", { colspan: columns.length }, empty)))); return; }
  const head = el("thead", {}, el("tr", {}, ...columns.map((column) => el("th", { scope: "col", class: column.number ? "number" : null }, column.title))));
  const long = new Set(columns.filter((column) => rows.some((row) => { const value = column.of(row); return typeof value === "string" && value.length > 24; })));
  const body = rows.map((row) => el("tr", {}, ...columns.map((column) => {
    const value = column.of(row);
    return el("td", { class: column.class || (column.number ? "number" : long.has(column) ? "long" : null) }, ...(Array.isArray(value) ? value : [value instanceof Node ? value : String(value ?? "")]));
  })));
  table.replaceChildren(head, el("tbody", {}, ...body));
}

function drawNumbers() {
  const broker = $("traffic-broker").value, view = state.view;
  if (!view) return;
  const row = broker ? view.brokers.find((one) => one.name === broker) || {} : view.totals;
  const tiles = [["published", "published/s"], ["received", "received/s"], ["forwarded", "forwarded/s"], ["delivered", "delivered/s"], ["nobody", "for nobody/s, at least"], ["control", "control messages/s"], ["dropped", "dropped/s"], ["queue", "queued now"], ["clients", "clients"], ["subscriptions", "subscriptions"], ["entries", "routing entries"]];
  $("tiles").replaceChildren(...tiles.map(([key, title]) => el("div", { class: "tile" }, el("b", { class: key === "dropped" && row[key] ? "bad" : "" }, number(row[key] ?? null)), el("span", {}, title))));
  const slow = view.slow.filter((one) => !broker || one.broker === broker);
  fill($("slow"), [{ title: "Name", of: (one) => one.name || one.link }, { title: "Broker", of: (one) => one.broker }, { title: "Link", of: (one) => one.link }, { title: "Queued", number: true, of: (one) => number(one.queue) }, { title: "Bytes", number: true, of: (one) => bytes(one.bytes) }, { title: "Dropped", number: true, of: (one) => number(one.dropped) }], slow, "Every peer reads fast enough.");
  const rows = view.brokers.filter((one) => !broker || one.name === broker).sort((one, two) => (two.published || 0) + (two.received || 0) - (one.published || 0) - (one.received || 0)).slice(0, 200);
  fill($("brokers"), [{ title: "Broker", of: (one) => one.name }, { title: "State", of: (one) => el("span", { class: one.state === "up" ? "good" : one.state === "down" ? "bad" : "" }, one.state) },
    ...[["published", "Published/s"], ["received", "Received/s"], ["forwarded", "Forwarded/s"], ["delivered", "Delivered/s"], ["control", "Control/s"], ["queue", "Queued"], ["clients", "Clients"], ["subscriptions", "Subscriptions"], ["entries", "Entries"]].map(([key, title]) => ({ title, number: true, of: (one) => number(one[key] ?? null) })), { title: "Processor", number: true, of: (one) => percent(one.cpu) }], rows, "No broker is known.");
}

async function drawTraffic() {
  drawNumbers();
  const found = await ask(`/api/history?broker=${encodeURIComponent($("traffic-broker").value)}`).catch(() => null);
  if (!found || state.page !== "traffic") return;
  const of = (...names) => Object.fromEntries(names.map((name) => [name, found.series[name]]));
  const over = (title, unit, series, bursts) => chart($("charts"), title, unit, series, ago(series, found.step_s), bursts);
  $("charts").replaceChildren(
    over("Events", "per second", of("published", "received", "forwarded", "delivered"), found.bursts.published),
    over("Control messages", "per second", of("control"), found.bursts.control),
    over("Queued", "events", of("queue")),
    over("Dropped or wanted by nobody", "events per second", { "for nobody": found.series.nobody, dropped: found.series.dropped }));
  fill($("latency"), [{ title: "Time", of: ([, one]) => one.title }, ...found.shares.map((share, place) => ({ title: `${share * 100}% below`, number: true, of: ([, one]) => time(one.seconds[place]) })), { title: "samples", number: true, of: ([, one]) => number(one.samples) }], Object.entries(found.latencies), "");
}

// -- tables ---------------------------------------------------------------------------------------------------

const tableQuery = () => new URLSearchParams({ what: $("what").value, broker: $("table-broker").value, link: $("table-link").value, search: $("search").value });

async function showTable() {
  $("covering-tree").replaceChildren();
  try {
    const found = await ask(`/api/table?${tableQuery()}`);
    $("table-count").textContent = `${number(found.found)} of ${number(found.total)} rows${found.rows.length < found.found ? `, the first ${found.rows.length} are shown` : ""}`;
    const isSaid = (value) => value !== "" && value !== null && value !== undefined;
    const keys = [...new Set(found.rows.flatMap((row) => Object.keys(row).filter((key) => isSaid(row[key]))))].filter((key) => !["language", "sid"].includes(key));
    fill($("table"), keys.map((key) => ({ title: key === "name" && $("what").value === "subscriptions" ? "User" : key[0].toUpperCase() + key.slice(1).replaceAll("_", " "), number: found.rows.every((row) => typeof row[key] === "number"), class: key === "filter" ? "filter" : null, of: (row) => row[key] })), found.rows, "There is nothing in it.");
  } catch (error) {
    $("table-count").textContent = error.message;
    $("table").replaceChildren();
  }
}

async function showCovering() {
  $("table").replaceChildren();
  try {
    const found = await ask(`/api/covering?${tableQuery()}`);
    const children = new Map();
    for (const row of found.rows) children.set(row.parent, [...(children.get(row.parent) || []), row]);
    const holders = (row) => { const names = [...new Set(row.holders.map((one) => [one.broker, one.client || one.name || one.link].filter(Boolean).join(" ")))]; return names.slice(0, 4).join(", ") + (names.length > 4 ? ` and ${names.length - 4} more` : ""); };
    const branch = (parent) => el("ul", {}, ...(children.get(parent) || []).map((row) => el("li", {}, el("code", {}, row.filter), ` ${holders(row)} `,
      row.uncovered.length ? el("span", { class: "note" }, `if it leaves, ${row.uncovered.length} below it will be forwarded`) : "", ...(children.has(row.place) ? [branch(row.place)] : []))));
    const roots = (children.get(null) || []).length;
    $("table-count").textContent = `${number(roots)} of ${number(found.rows.length)} filters are covered by none` + (found.left_out ? `; ${number(found.left_out)} more were not compared` : "") + (found.unread ? `; ${found.unread} are too long to be read` : "");
    $("covering-tree").replaceChildren(branch(null));
  } catch (error) {
    $("table-count").textContent = error.message;
  }
}

function content(text, language) {
  if (language === "xpath") return text;
  if (language === "keywords" && !text.trim().startsWith("[")) return text.trim().split(/\s+/);
  try { return JSON.parse(text); } catch { throw new Error('an event is a JSON object, such as {"symbol": "IBM", "price": 12}'); }
}

async function showExplained() {
  $("explain-error").textContent = "";
  const box = $("explained");
  try {
    const language = $("language").value;
    const found = await post("/api/explain", { content: content($("event").value, language), language, start: $("start").value });
    state.way = found;
    state.chosen = null;
    const how = found.allowed ? "" : " Its publisher may not publish it.";
    const got = el("table", { id: "receivers" }), others = el("table", { id: "others" }), hops = el("table", { id: "hops" });
    fill(got, [{ title: "Subscription", class: "filter", of: (row) => row.filter }, { title: "Key", of: (row) => row.key }, { title: "Broker", of: (row) => row.broker }, { title: "Way", of: (row) => row.way.join(" → ") }], found.receivers, "Nobody.");
    const why = (row) => el("ul", { class: "why" }, ...row.why.map((misses) => el("li", {}, misses.join(" and "))));
    fill(others, [{ title: "Subscription", class: "filter", of: (row) => row.filter }, { title: "Broker", of: (row) => row.broker }, { title: "Why not", of: why }], found.others, "There are no others.");
    fill(hops, [{ title: "Hop", of: (row) => `${row.from} ${row.goes ? "→" : "↛"} ${row.to}` }, { title: "Tree", number: true, of: (row) => row.tree }, { title: "Why", of: (row) => row.reason }], found.hops, "It goes nowhere.");
    box.replaceChildren(el("p", { class: "sentence" }, `${number(found.receivers_total)} subscriptions get it, at ${found.visited.length} of ${state.view.brokers.length} brokers.${how} `,
      el("button", { type: "button", id: "on-map", on: { click: () => { location.hash = "#map"; } } }, "Show on the map")),
      el("h3", {}, "Who gets it"), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Who gets it" }, got), el("h3", {}, "Hop by hop"), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Hop by hop" }, hops), el("h3", {}, "Who does not, and why"), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Who does not get it" }, others));
  } catch (error) {
    box.replaceChildren();
    $("explain-error").textContent = error.message;
  }
}

// -- plans ----------------------------------------------------------------------------------------------------

async function drawPlans() {
  const found = await ask("/api/plans").catch((error) => ({ problem: error.message, state: {}, rounds: [], plan: null }));
  if (state.page !== "plans") return;
  const versions = Object.entries(found.state.versions || {}).map(([version, count]) => `version ${version} at ${count} brokers`).join(", ");
  const measured = found.crossed === null || found.crossed === undefined ? "" : ` Measured now: an event crosses ${found.crossed.toFixed(2)} links.`;
  const steps = (found.state.steps || []).filter((one) => !["done", "switched", "back"].includes(one.step)).map((one) => ` ${one.broker}: ${one.step}${one.reason ? `, ${one.reason}` : ""}.`).join("");
  const plan = found.plan, chosen = plan && plan.alternatives.find((row) => row.chosen);
  const predicted = chosen && chosen.cost !== null ? ` Predicted: ${chosen.cost.toFixed(2)} links an event${chosen.saving ? `, ${percent(chosen.saving)} less than one tree` : ""}.` : "";
  $("plan-sentence").textContent = (plan ? `A plan by ${plan.method} is in use: ${plan.trees.length} trees${plan.groups ? ` for ${number(plan.groups)} filters` : ""} on ${plan.brokers} brokers (${versions}).${predicted}` : `No plan is in use: events follow the overlay's own tree (${versions}).`) + measured + steps;
  $("plan-error").textContent = found.problem || "";
  const rows = plan ? plan.alternatives : [];
  $("plan-chart").replaceChildren(...(rows.length ? [scatter(rows, found.crossed)] : []));
  if (plan && rows.length) fill($("alternatives"), [{ title: "Method", of: (row) => (row.chosen ? el("strong", {}, `${row.name} (in use)`) : row.name) }, { title: "Meaning", of: (row) => row.meaning }, { title: "Links an event", number: true, of: (row) => number(row.cost) }, { title: "Table entries", number: true, of: (row) => number(row.entries) }, { title: "Trees", number: true, of: (row) => number(row.trees) }, { title: "Saving", number: true, of: (row) => percent(row.saving) }], rows, "");
  else $("alternatives").replaceChildren();
  const shown = found.rounds.slice(-50).reverse();
  fill($("rounds"), [{ title: "Round", number: true, of: (row) => row.number }, { title: "When", of: (row) => new Date(row.at_s * 1000).toLocaleTimeString() }, { title: "Action", of: (row) => row.action }, { title: "Why", of: (row) => row.reason }, { title: "Measured", number: true, of: (row) => number(row.measured) }, { title: "Planned", number: true, of: (row) => number(row.planned) }, { title: "In use", number: true, of: (row) => number(row.installed) }, { title: "Predicted saving", number: true, of: (row) => percent(row.predicted_saving) }, { title: "Measured saving", number: true, of: (row) => percent(row.measured_saving) }], shown, "No coordinator: start the dashboard with --rounds-dir, its data directory.");
  const curve = found.rounds.filter((row) => row.measured !== null);
  const events = curve.flatMap((row, place) => (row.action === "install" ? [[place, "installed", `round ${row.number}: installed`]] : row.action === "take back" ? [[place, "back", `round ${row.number}: taken back`]] : []));
  const ends = curve.length > 1 ? [[0, `round ${curve[0].number}`], [1, `round ${curve.at(-1).number}`]] : [];
  $("rounds-chart").replaceChildren(...(curve.length > 1 ? [chart($("rounds-chart"), "Links that an event crosses", "by round", { measured: curve.map((row) => row.measured), planned: curve.map((row) => row.planned ?? row.measured) }, ends, [], events)] : []));
}

// Traffic beside table entries: an alternative that is left of and below another is better in both. What has no table entries
// of its own, the least that is possible and what is measured now, is a line. The picture begins at the least, not at zero.
function scatter(rows, crossed) {
  const marks = rows.filter((row) => row.cost !== null && row.entries !== null), floors = rows.filter((row) => row.floor && row.cost !== null);
  if (!marks.length) return el("p", { class: "note" }, "The planner has not counted the table entries of its candidates: there is no picture.");
  const width = Math.min(820, widthFor($("plan-chart"))), height = 300, [left, right, top, bottom] = [52, 16, 14, 40];
  const costs = [...marks, ...floors].map((row) => row.cost).concat(crossed ? [crossed] : []);
  const [least, most] = [Math.min(...costs), Math.max(...costs)], room = Math.max(most - least, most * 0.05, 1e-6) * 0.12;
  const step = niceTop((most - least + 2 * room) / 4), [low, high] = [Math.max(0, Math.floor((least - room) / step) * step), Math.ceil((most + room) / step) * step];
  const wide = niceTop(Math.max(1, ...marks.map((row) => row.entries)));
  const x = (value) => left + ((width - left - right) * value) / wide, y = (value) => height - bottom - ((height - top - bottom) * (value - low)) / (high - low);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Candidates: links that an event crosses, and table entries" });
  for (let tick = 0; tick <= Math.round((high - low) / step); tick++) {
    const value = low + step * tick;
    picture.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: y(value), y2: y(value) }), svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value)));
  }
  for (const share of [0, 0.5, 1]) picture.append(svg("text", { x: x(wide * share), y: height - 22, "text-anchor": ["start", "middle", "end"][share * 2] }, number(wide * share)));
  picture.append(svg("text", { x: (left + width - right) / 2, y: height - 5, "text-anchor": "middle" }, "table entries"));
  const level = (cost, kind) => picture.append(svg("line", { class: kind, x1: left, x2: width - right, y1: y(cost), y2: y(cost) }));
  for (const row of floors) level(row.cost, "least");
  if (crossed) level(crossed, "measured");
  const shown = (row) => ({ text: row.name, weight: row.chosen ? 9 : 1 / (1 + row.cost), places: around(x(row.entries), y(row.cost), row.chosen ? 8 : 6, textWidth(row.name, 13) + 6, 13) });
  for (const row of marks) picture.append(svg("circle", { class: `dot ${row.chosen ? "chosen" : ""}`, cx: x(row.entries), cy: y(row.cost), r: row.chosen ? 7 : 5 }, svg("title", {}, `${row.name}: ${number(row.cost)} links an event, ${number(row.entries)} entries`)));
  const dots = marks.map((row) => [x(row.entries) - 5, y(row.cost) - 5, 10, 10]);
  const lines = [...floors.map((row) => row.cost), ...(crossed ? [crossed] : [])].map((cost) => [left, y(cost), width - right, y(cost)]);
  for (const label of placeLabels(marks.map(shown), lines, dots)) if (label.x > left) picture.append(svg("text", { class: "name", x: label.x, y: label.y, "text-anchor": "middle" }, label.text));
  const key = [["dot-key k2", "in use"], ["dot-key k1", "other candidates"], ...(floors.length ? [["dashes least", "the least that is possible"]] : []), ...(crossed ? [["dashes measured", "measured now"]] : [])];
  return el("figure", { class: "chart scatter" }, el("figcaption", {}, "Links that an event crosses, and table entries", ...key.map(([kind, text]) => el("span", { class: "key" }, el("i", { class: kind }), text))), picture);
}

async function change(question, word, path, options) {
  if (!(await confirmed(question, word))) return;
  try {
    await ask(path, { method: "POST", ...options });
    $("plan-error").textContent = "";
  } catch (error) {
    $("plan-error").textContent = error.message;
  }
  await drawPlans();
}

// -- clients --------------------------------------------------------------------------------------------------

const door = (row) => (row.peer === "http" ? "HTTP" : row.tls ? "TLS" : "TCP");
const clientName = (row) => row.name || (row.permissions || {}).name || row.link;
const allowed = (row) => { const may = row.permissions || {}; return (may.subscribe ?? null) === null && (may.publish ?? null) === null ? "everything" : `subscribe: ${may.subscribe ?? "everything"}; publish: ${may.publish ?? "everything"}`; };

async function drawClients() {
  const found = await ask("/api/clients").catch(() => null);
  if (!found || state.page !== "clients" || state.pressed) return; // a click may be under way
  const focused = document.activeElement.dataset.key;
  const wanted = $("client-search").value.toLowerCase();
  const rows = found.rows.filter((row) => !wanted || JSON.stringify(row).toLowerCase().includes(wanted));
  $("client-count").textContent = `${number(rows.length)} of ${number(found.found)} clients`;
  const end = (row) => el("button", { type: "button", class: "small", "data-key": `${row.broker} ${row.link}`, on: { click: () => endClient(row) } }, "End…");
  fill($("clients"), [{ title: "Name", class: "name", of: clientName }, { title: "User", of: (row) => (row.permissions || {}).name || "–" }, { title: "Broker", of: (row) => row.broker }, { title: "Connection", of: door }, { title: "Address", of: (row) => row.peer }, { title: "Events/s", number: true, of: (row) => number(row.rate) }, { title: "Queued", number: true, of: (row) => el("span", { class: row.slow ? "bad" : "" }, number(row.queue_events)) }, { title: "Dropped", number: true, of: (row) => number(row.dropped) }, { title: "Subscriptions", number: true, of: (row) => number(row.subscriptions) }, { title: "Permissions", of: allowed }, ...(state.role === "admin" ? [{ title: "Action", of: end }] : [])], rows, "Nobody is connected.");
  if (focused) { const again = [...document.querySelectorAll("#clients button")].find((one) => one.dataset.key === focused); if (again) again.focus(); }
}

async function endClient(row) {
  if (!(await confirmed(`End the connection of ${clientName(row)} at ${row.broker}? The client may connect again.`, "End it"))) return;
  try {
    await post("/api/end", { broker: row.broker, link: row.link });
    $("client-error").textContent = "";
  } catch (error) {
    $("client-error").textContent = error.message;
  }
  await drawClients();
}

// -- begin ----------------------------------------------------------------------------------------------------

addEventListener("DOMContentLoaded", () => {
  $("login-form").addEventListener("submit", (event) => { event.preventDefault(); logIn($("token").value.trim()); });
  $("logout").addEventListener("click", async () => { await post("/api/logout", {}).catch(() => {}); showLogin(); });
  addEventListener("hashchange", open_page);
  addEventListener("resize", () => { if (state.page === "traffic") drawTraffic(); else if (state.page === "plans") drawPlans(); });
  $("zoom-in").addEventListener("click", () => zoom(1.4));
  $("zoom-out").addEventListener("click", () => zoom(1 / 1.4));
  $("zoom-fit").addEventListener("click", () => { fit(); drawMap(); });
  for (const id of ["colour", "tree"]) $(id).addEventListener("change", drawMap);
  $("find").addEventListener("change", () => find($("find").value));
  $("traffic-broker").addEventListener("change", drawTraffic);
  $("explain-form").addEventListener("submit", (event) => { event.preventDefault(); showExplained(); });
  $("table-form").addEventListener("submit", (event) => { event.preventDefault(); showTable(); });
  $("covering").addEventListener("click", showCovering);
  $("client-search").addEventListener("input", drawClients);
  $("install-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const file = $("plan-file").files[0], broker = $("plan-broker").value;
    if (!file) { $("plan-error").textContent = "Choose a plan's file: `covey plan` writes it."; return; }
    const body = await file.arrayBuffer();
    change(`Install ${file.name} in the whole network, from ${broker}?`, "Install", `/api/install?broker=${encodeURIComponent(broker)}`, { body, headers: { "Content-Type": "application/octet-stream" } });
  });
  $("no-plan").addEventListener("click", () => change("Go back to the overlay's own tree, without any plan?", "Install none", `/api/install?broker=${encodeURIComponent($("plan-broker").value)}`, { body: new Blob([]), headers: { "Content-Type": "application/octet-stream" } }));
  $("roll-back").addEventListener("click", () => change(`Take back the plan that was installed at ${$("plan-broker").value} last?`, "Roll back", `/api/rollback?broker=${encodeURIComponent($("plan-broker").value)}`, {}));
  addEventListener("pointerdown", () => { state.pressed = true; });
  for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => { state.pressed = false; });
  watchPointer();
  begin();
});
