// Talks to the server: what is plugged in, checks, files; and connects the buttons.
"use strict";

let loaded = ""; // the file whose secrets are used
let later = 0; // the next check of what was entered

// --- The server ---

async function ask(path, body) {
  const how = body === undefined ? {} : {
    method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body),
  };
  try {
    const answer = await fetch(path, how);
    $("link").textContent = "";
    delete $("link").dataset.state;
    const isJson = (answer.headers.get("Content-Type") || "").startsWith("application/json");
    return isJson ? await answer.json() : {error: (await answer.text()).trim()};
  } catch {
    $("link").dataset.state = "away";
    $("link").textContent = "✕ outpost setup does not answer. Has it ended? Its terminal shows " +
      "how work on a board ended.";
    return {error: "outpost setup does not answer"};
  }
}

const posted = more => ({
  board: $("board").value, port: $("port").value, file: loaded, form: read(), ...more,
});

function touch(path) {
  touched.add(path);
  clearTimeout(later);
  later = setTimeout(async () => {
    if (!$("board").value) return;
    const answer = await ask("check", posted());
    if (!answer.error) showFaults(answer.faults || {}, false);
  }, 250);
}

function failed(answer) {
  if (answer.faults) showFaults(answer.faults, true);
  if (answer.error) write($("summary"), "✕ " + answer.error);
  return Boolean(answer.faults || answer.error);
}

// --- What is plugged in, and the files ---

function options(select, names, none) {
  const chosen = select.value;
  const made = names.map(([value, text]) => new Option(text, value));
  select.replaceChildren(...(none === null ? [] : [new Option(none, "")]), ...made);
  if (names.some(([value]) => value === chosen)) select.value = chosen;
}

async function refresh() {
  const state = await ask("state");
  if (state.error) return write($("plugged"), "✕ " + state.error);
  const ports = state.ports;
  options($("port"), ports.map(one => [one.port, `${one.port}: ${one.text}`]),
    ports.length === 1 ? null : ports.length ? "choose" : "none");
  const troubles = ports.filter(one => one.trouble).map(one => "✕ " + one.trouble);
  const several = "Several are plugged in: choose one, or unplug the others and look again.";
  write($("plugged"), !ports.length ? "✕ " + state.none
    : troubles.join("\n") || (ports.length > 1 ? several : ""));
  options($("file"), state.files.map(name => [name, name]), "none");
  for (const select of form.querySelectorAll("select[data-files]")) {
    options(select, state.certificates.map(name => [name, name]), "none");
  }
  $("files").hidden = !state.files.length;
  return state;
}

// --- Files ---

async function save(overwrite) {
  write($("summary"), "");
  write($("saved"), "");
  $("overwrite").hidden = true;
  const answer = await ask("save", posted({overwrite}));
  if (answer.exists) {
    write($("exists"), `${answer.exists}. Replace it? Its comments are lost.`);
    $("overwrite").hidden = false;
    return $("yes").focus();
  }
  if (failed(answer)) return;
  const saved = `✓ Saved as ${answer.saved}; only you can read it.`;
  write($("saved"), `${saved} To continue in a terminal: ${answer.command}`);
  await refresh();
}

async function load() {
  if (!$("file").value) return write($("loaded"), "✕ Choose a file.");
  const answer = await ask("load", {board: $("board").value, name: $("file").value});
  if (failed(answer)) return;
  loaded = answer.file;
  const [port, board] = [$("port").value, $("board").value];
  fill(answer.form);
  [$("port").value, $("board").value, $("file").value] = [port, board, answer.file];
  showBoard();
  chips(answer.form.own);
  write($("loaded"), `✓ ${answer.file} is loaded. ${answer.note}`);
}

// --- Events ---

// Enter in a field must not flash the board.
form.addEventListener("submit", event => event.preventDefault());
form.addEventListener("change", event => {
  const field = event.target.closest(".field, [data-field=own]");
  if (!field || OUTSIDE.includes(field.dataset.field) && field.id !== "own") return;
  const entry = field.closest(".entry"), name = field.dataset.field;
  const list = entry?.parentElement.dataset.list;
  touch(entry ? `${list}.${entries(list).indexOf(entry)}.${name}` : name);
});
for (const button of form.querySelectorAll("[data-add]")) {
  const list = button.dataset.add;
  button.addEventListener("click", () => control(add(list, list)).focus());
}
$("add-sensor").addEventListener("click",
  () => control(add("sensors", "driver-" + $("driver").value)).focus());
$("board").addEventListener("change", showBoard);
$("refresh").addEventListener("click", refresh);
$("load").addEventListener("click", load);
$("ask").addEventListener("click", () => start("kind"));
$("flash").addEventListener("click", () => start("flash"));
$("check").addEventListener("click", () => start("check"));
$("provision").addEventListener("click", () => start("provision"));
$("save").addEventListener("click", () => save(false));
$("yes").addEventListener("click", () => save(true));
$("no").addEventListener("click", () => { $("overwrite").hidden = true; $("save").focus(); });

showBoard();
refresh().then(state => { if (state?.job) watch(state.job, false); });
