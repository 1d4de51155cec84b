// The form that the server made: adds and removes entries, reads and fills in the fields, shows
// faults beside them. Text is inserted as text, never as HTML.
"use strict";

const $ = id => document.getElementById(id);
const form = $("form");
const OUTSIDE = ["port", "board", "file", "own"]; // fields that are not settings
const touched = new Set();
let isAsked = false; // show all faults, also those of fields that were not touched
let count = 0; // of added entries, for their ids

function write(element, text) {
  element.textContent = text;
  element.hidden = !text;
}

// --- Fields ---

const control = field => field.querySelector("input:not([data-show], [data-keep]), select");
const keeps = field => {
  const keep = field.querySelector("[data-keep]");
  return Boolean(keep && !keep.parentElement.hidden && keep.checked);
};
const entries = list => [...form.querySelector(`[data-list=${list}]`).children];

function adopt(root, suffix) {
  for (const field of root.querySelectorAll(".field[data-field]")) {
    const input = control(field), label = field.querySelector("label");
    const hint = field.querySelector(".hint"), fault = field.querySelector(".fault");
    if (suffix) {
      input.id += suffix;
      if (label.htmlFor) label.htmlFor = input.id;
    }
    fault.id = input.id + "-fault";
    if (hint) hint.id = input.id + "-hint";
    input.setAttribute("aria-describedby", (hint ? hint.id + " " : "") + fault.id);
    const show = field.querySelector("[data-show]");
    show?.addEventListener("change", () => { input.type = show.checked ? "text" : "password"; });
    show?.setAttribute("aria-label", "show: " + label.textContent);
  }
}

function add(list, template) {
  const entry = $("t-" + template).content.firstElementChild.cloneNode(true);
  adopt(entry, "-" + ++count);
  entry.querySelector(".remove").addEventListener("click", () => {
    const next = entry.nextElementSibling || entry.previousElementSibling;
    entry.remove();
    number(list);
    (next ? control(next) : form.querySelector(`[data-add=${list}], #add-sensor`)).focus();
    touch(list);
  });
  if (list === "sensors") entry.dataset.driver = template.slice("driver-".length);
  form.querySelector(`[data-list=${list}]`).append(entry);
  number(list);
  return entry;
}

// The last network cannot be removed, and each legend says which one it is.
function number(list) {
  const all = entries(list);
  all.forEach((entry, at) => {
    const legend = entry.querySelector("legend");
    legend.dataset.text ??= legend.textContent;
    legend.textContent = legend.dataset.text + (list === "sensors" ? "" : ` ${at + 1}`);
    entry.querySelector(".remove").hidden = list === "networks" && all.length === 1;
    entry.querySelector(".remove").setAttribute("aria-label", "Remove " + legend.textContent);
  });
}

function readEntry(entry) {
  const found = {};
  for (const field of entry.querySelectorAll(".field")) {
    found[field.dataset.field] = control(field).value;
  }
  if (entry.dataset.driver) found.driver = entry.dataset.driver;
  if ([...entry.querySelectorAll(".field")].some(keeps)) found.kept = Number(entry.dataset.kept);
  return found;
}

function read() {
  const values = {}, kept = [];
  for (const field of form.querySelectorAll(".field[data-field]")) {
    const name = field.dataset.field, input = control(field);
    if (OUTSIDE.includes(name) || field.closest(".entry, section[hidden]")) continue;
    values[name] = input.type === "checkbox" ? input.checked : input.value;
    if (keeps(field)) kept.push(name);
  }
  return {
    values,
    networks: $("wifi").hidden ? [] : entries("networks").map(readEntry),
    own: [...$("chips").querySelectorAll("input:checked")].map(input => input.value),
    sensors: entries("sensors").map(readEntry),
    alarms: entries("alarms").map(readEntry),
    kept,
  };
}

function fill(shown) {
  const fields = [...form.querySelectorAll(".field[data-field]")].filter(
    field => !OUTSIDE.includes(field.dataset.field) && !field.closest(".entry"));
  form.reset();
  for (const field of fields) put(field, shown.values[field.dataset.field], shown.kept);
  for (const list of ["networks", "sensors", "alarms"]) {
    form.querySelector(`[data-list=${list}]`).replaceChildren();
    for (const one of shown[list]) fillEntry(list, one);
  }
  showBoard();
  chips(shown.own);
}

function fillEntry(list, one) {
  const template = list === "sensors" ? "driver-" + one.driver : list;
  if (!$("t-" + template)) return;
  const entry = add(list, template);
  const isKept = one.kept !== undefined;
  if (isKept) entry.dataset.kept = one.kept;
  for (const field of entry.querySelectorAll(".field")) {
    put(field, one[field.dataset.field], isKept ? ["password"] : []);
  }
}

function put(field, value, kept) {
  const input = control(field), keep = field.querySelector("[data-keep]");
  if (keep) {
    keep.parentElement.hidden = !kept.includes(field.dataset.field);
    input.type = "password"; // its "show" box is unchecked again
  }
  if (value === undefined) return;
  if (input.type === "checkbox") input.checked = value === true;
  else input.value = value;
}

// --- Faults ---

function place(path) {
  const [name, at, key] = path.split(".");
  const entry = at === undefined ? null : entries(name)[Number(at)];
  if (entry) {
    return entry.querySelector(`.field[data-field="${key}"] .fault`) ||
      entry.querySelector(":scope > .fault");
  }
  // an entry may have a field of the same name
  return [...form.querySelectorAll(`[data-fault="${CSS.escape(name)}"]`)].find(
    fault => !fault.closest(".entry")) || $("general");
}

// isNow: the user asked for it; the first fault gets the focus.
function showFaults(faults, isNow) {
  isAsked ||= isNow;
  for (const fault of form.querySelectorAll(".fault")) {
    write(fault, "");
    if (fault.parentElement.matches(".field")) {
      control(fault.parentElement).removeAttribute("aria-invalid");
    }
  }
  let shown = 0;
  for (const [path, text] of Object.entries(faults)) {
    if (!isAsked && !touched.has(path) && !touched.has(path.split(".")[0])) continue;
    const fault = place(path);
    write(fault, "✕ " + text);
    if (fault.parentElement.matches(".field")) {
      control(fault.parentElement).setAttribute("aria-invalid", "true");
    }
    for (let at = fault.closest("details"); at; at = at.parentElement.closest("details")) {
      at.open = true;
    }
    shown += 1;
  }
  const told = `✕ Nothing was done: ${shown} to correct, marked ✕ above.`;
  write($("summary"), isNow && shown ? told : "");
  const first = isNow && form.querySelector(
    "[aria-invalid], fieldset:has(> .fault:not([hidden])) input");
  if (first) first.focus();
}

// --- What depends on the kind of board ---

function showBoard() {
  const kind = $("board").selectedOptions[0]?.dataset || {};
  $("wifi").hidden = kind.wifi === "no";
  if (!entries("networks").length) add("networks", "networks");
  const own = (kind.own || "").split(" ").filter(Boolean);
  $("own").hidden = !own.length;
  chips(own);
  write($("pins"), kind.pins ? `Pins of this board that measure a voltage: ${kind.pins}.` : "");
}

function chips(chosen) {
  const own = ($("board").selectedOptions[0]?.dataset.own || "").split(" ").filter(Boolean);
  $("chips").replaceChildren(...[...new Set([...own, ...chosen])].map(name => {
    const label = document.createElement("label"), input = document.createElement("input");
    label.className = "check";
    Object.assign(input, {type: "checkbox", value: name, checked: chosen.includes(name)});
    label.append(input, " " + name);
    return label;
  }));
}

adopt(form, "");
