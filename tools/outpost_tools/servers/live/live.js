// New values into the page that the server made. Text goes in as text; HTML comes from the server
// alone, which has escaped it. Cards out of sight are drawn when they come into sight.
"use strict";

const RECENT = 40; // as in board.py
const body = document.body;
const board = body.dataset.board;
const link = document.getElementById("link");
const cards = document.getElementById("cards");
let skew = Number(body.dataset.now) - Date.now(); // of the server's clock against ours
const sensors = new Map(); // number -> {text, time, points, isArrival}
const dirty = new Set();
const places = new Map(); // number -> {row, values, card}
let isAsked = false;

// --- Words ---

function age(ms) {
  const s = ms / 1000;
  if (s < -5) return "ahead by " + span(-s);
  return s < 1.5 ? "now" : span(s) + " ago";
}

function span(s) { // as duration() in common/words.py
  if (s < 59.5) return Math.round(s) + " s";
  if (s < 59.5 * 60) return short(s / 60) + " min";
  if (s < 47.5 * 3600) return short(s / 3600) + " h";
  const days = short(s / 86400);
  return days + (days === "1" ? " day" : " days");
}

function short(value) {
  return value < 9.95 ? String(Number(value.toFixed(1))) : String(Math.round(value));
}

const moments = new Intl.DateTimeFormat(undefined, {
  month: "short", day: "numeric", hour: "2-digit", minute: "2-digit",
});
const hours = new Intl.DateTimeFormat(undefined, {hour: "2-digit", minute: "2-digit"});
const days = new Intl.DateTimeFormat(undefined, {month: "short", day: "numeric"});

function write(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

function writeValue(element, text) {
  const number = element.firstElementChild; // large; the unit after it is not
  if (!number) return write(element, text);
  const at = text.indexOf(" ");
  write(number, at < 0 ? text : text.slice(0, at));
  number.nextSibling.nodeValue = at < 0 ? " " : text.slice(at);
}

function writeTime(element) {
  const ms = Number(element.dataset.ms);
  if (element.dataset.as === "age") {
    const mark = element.dataset.arrival ? " (arrival)" : "";
    write(element, age(Date.now() + skew - ms) + mark);
    element.title = new Date(ms).toLocaleString();
  } else if (element.dataset.as === "axis") {
    const chosen = document.getElementById("charts").dataset.span;
    write(element, (["hour", "hours", "day"].includes(chosen) ? hours : days).format(ms));
  } else {
    write(element, moments.format(ms));
  }
}

function writeTimes(root) {
  for (const element of root.querySelectorAll("time[data-ms]")) {
    const card = element.closest(".card");
    if (!card || isSeen(card)) writeTime(element);
  }
}

function number(value) {
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? String(value)
    : String(Number(value.toPrecision(7)));
}

// --- Sparklines: the same as in charts.py ---

function path(points) {
  if (points.length < 2) return points.length ? "M0,12H100" : "";
  const first = points[0][0], wide = Math.max(points.at(-1)[0] - first, 1);
  let least = Infinity, most = -Infinity;
  for (const [, v] of points) { least = Math.min(least, v); most = Math.max(most, v); }
  const high = most - least || 1;
  return "M" + points.map(([t, v]) =>
    ((t - first) * 100 / wide).toFixed(1) + "," +
    (most === least ? 12 : 22 - (v - least) * 20 / high).toFixed(1)).join("L");
}

function lately(points, text) {
  if (points.length === 1) return "one reading so far";
  const values = points.map(p => p[1]);
  const unit = text.includes(" ") ? text.slice(text.indexOf(" ")) : "";
  return `last ${points.length} readings: ${number(Math.min(...values))} to ` +
    number(Math.max(...values)) + unit;
}

// --- What is in sight ---

const inSight = new Set();
const watcher = new IntersectionObserver(entries => {
  for (const {target, isIntersecting} of entries) {
    if (!isIntersecting) { inSight.delete(target); continue; }
    inSight.add(target);
    writeTimes(target);
    for (const row of target.querySelectorAll("[data-s]")) {
      if (dirty.has(Number(row.dataset.s))) ask();
    }
  }
}, {rootMargin: "300px"});

function isSeen(card) { return inSight.has(card); }

function adopt(card) {
  watcher.observe(card);
  for (const row of card.querySelectorAll("[data-s]")) {
    const id = Number(row.dataset.s);
    const spark = row.querySelector(".spark");
    const points = spark ? spark.dataset.p.split(" ").map(p => p.split(":").map(Number)) : [];
    sensors.set(id, {text: row.querySelector(".value").textContent, points});
    places.set(id, {row, spark, card, line: spark?.firstElementChild,
      time: row.querySelector("time"), values: card.querySelectorAll(`[data-v="${id}"]`)});
    dirty.delete(id);
  }
}

// --- What is new ---

function ask() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(draw);
}

function draw() {
  isAsked = false;
  for (const id of dirty) {
    const place = places.get(id), sensor = sensors.get(id);
    if (!place || !isSeen(place.card)) continue;
    dirty.delete(id);
    for (const element of place.values) writeValue(element, sensor.text);
    place.line?.setAttribute("d", path(sensor.points));
    place.spark?.setAttribute("aria-label", lately(sensor.points, sensor.text));
    place.time.dataset.ms = sensor.time;
    if (sensor.isArrival) place.time.dataset.arrival = "yes";
    else delete place.time.dataset.arrival;
    writeTime(place.time);
  }
}

function take(news) {
  if (news.now) skew = news.now - Date.now();
  for (const [id, text, time, isArrival, isReset, points] of news.s || []) {
    const sensor = sensors.get(id);
    if (!sensor) continue; // its card comes with a later event
    const kept = isReset ? points : merged(sensor.points, points);
    Object.assign(sensor, {text, time, isArrival, points: kept.slice(-RECENT)});
    dirty.add(id);
  }
  for (const [id, html] of Object.entries(news.cards || {})) putCard(id, html);
  for (const [id, seen, backlog] of news.b || []) putFacts(id, seen, backlog);
  if (news.head) putHead(news.head);
  if (news.order) putInOrder(news.order);
  if (news.cards || news.order) filter();
  ask();
}

function merged(points, more) {
  const last = points.length ? points.at(-1)[0] : -Infinity;
  return points.concat(more.filter(p => p[0] > last));
}

function putFacts(id, seen, backlog) {
  const at = document.querySelector(`[data-seen="${id}"] time`);
  if (!at) return;
  at.dataset.ms = seen;
  if (isSeen(at.closest(".card"))) writeTime(at);
  write(document.querySelector(`[data-backlog="${id}"]`), backlog.toLocaleString("en"));
}

function putCard(id, html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const card = holder.content.firstElementChild;
  const old = document.getElementById("b" + id);
  const hadFocus = old && old.contains(document.activeElement);
  if (old) {
    old.querySelectorAll("details").forEach(one => { // what was opened stays open
      const again = card.getElementsByClassName(one.className)[0];
      if (one.open && again) again.open = true;
    });
    watcher.unobserve(old);
    if (inSight.delete(old)) inSight.add(card);
    old.replaceWith(card);
  } else if (!board) {
    cards.append(card);
  } else {
    return;
  }
  adopt(card);
  writeTimes(card);
  if (hadFocus) card.querySelector("a")?.focus();
}

function putHead(html) {
  const head = document.getElementById("head");
  if (!head || head.innerHTML === html) return;
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const verdict = head.querySelector(".verdict");
  const isOpen = head.querySelector("details")?.open;
  // the element that a screen reader listens to stays
  const fresh = holder.content.querySelector(".verdict");
  if (verdict.textContent !== fresh.textContent) verdict.innerHTML = fresh.innerHTML;
  verdict.className = fresh.className;
  fresh.remove();
  while (verdict.nextSibling) verdict.nextSibling.remove();
  head.append(holder.content);
  if (isOpen && head.querySelector("details")) head.querySelector("details").open = true;
}

function putInOrder(order) {
  const wanted = new Set(order.map(id => "b" + id));
  for (const card of [...cards.children]) {
    if (!wanted.has(card.id)) card.remove(); // it was forgotten
  }
  if (cards.contains(document.activeElement)) return; // nothing moves under somebody's hands
  let at = cards.firstElementChild;
  for (const id of order) {
    const card = document.getElementById("b" + id);
    if (!card) continue;
    if (card === at) at = at.nextElementSibling;
    else cards.insertBefore(card, at);
  }
}

// --- Finding a board ---

const find = document.getElementById("find");
const only = document.getElementById("only");

function filter() {
  if (!find) return;
  const wanted = find.value.trim().toLowerCase();
  let shown = 0;
  for (const card of cards.children) {
    const isIt = (!only.checked || card.dataset.needs === "yes") && (!wanted ||
      card.dataset.name.toLowerCase().includes(wanted) ||
      [...card.querySelectorAll(".name")].some(
        th => th.textContent.toLowerCase().includes(wanted)));
    card.hidden = !isIt;
    shown += isIt;
  }
  const told = document.getElementById("shown");
  const all = cards.children.length;
  write(told, shown === all ? `${shown} ${told.dataset.word}` : `${shown} of ${all}`);
}

if (find) {
  document.querySelector(".tools").hidden = false;
  find.addEventListener("input", filter);
  only.addEventListener("change", filter);
}

// --- The link ---

function connect() {
  const query = new URLSearchParams({since: body.dataset.cursor, board});
  const source = new EventSource("/events?" + query);
  source.onopen = () => {
    link.dataset.state = "here";
    write(link, "follows: new values appear by themselves");
  };
  source.onmessage = event => {
    // after a long absence the browser may ask again without the last id
    if (event.lastEventId) body.dataset.cursor = event.lastEventId;
    take(JSON.parse(event.data));
  };
  source.addEventListener("reload", () => location.reload());
  source.onerror = () => {
    link.dataset.state = "away";
    write(link, "✕ no connection to the server: the values stay as they were; trying again");
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
  };
}

async function redrawCharts() {
  const charts = document.getElementById("charts");
  if (document.hidden || charts.querySelector("details[open]")) return;
  const address = location.pathname + "/charts?span=" + charts.dataset.span;
  const answer = await fetch(address).catch(() => null);
  if (!answer || !answer.ok) return;
  const holder = document.createElement("template");
  holder.innerHTML = await answer.text();
  charts.replaceChildren(holder.content);
  writeTimes(charts);
}

for (const card of cards.querySelectorAll(".card")) adopt(card);
for (const time of document.querySelectorAll("time[data-ms]")) writeTime(time);
setInterval(() => { if (!document.hidden) writeTimes(document); }, 1000);
if (board) setInterval(redrawCharts, 30000);
connect();
