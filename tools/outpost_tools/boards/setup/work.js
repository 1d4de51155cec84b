// Starts work on a board, and shows its progress line by line.
"use strict";

const POLL_MS = 300;
const BUTTONS = ["flash", "provision", "check", "ask"];
const DONE = {
  flash: "✓ Done: firmware and settings are on the board, and its first message arrived.",
  provision: "✓ Done: the settings are on the board, and its program was started with them.",
  check: "✓ Checked; nothing was changed on the board.",
  kind: "✓ The kind of board is set above.",
};

async function start(task) {
  for (const name of BUTTONS) $(name).disabled = true;
  write($("summary"), "");
  const order = {task, replace: $("replace").checked, held: $("held").value};
  const answer = await ask("jobs", posted(order));
  if (failed(answer)) return enable();
  await watch(answer.job, true);
}

function enable() { for (const name of BUTTONS) $(name).disabled = false; }

async function watch(job, isNew) {
  for (const name of BUTTONS) $(name).disabled = true;
  const body = $("results").tBodies[0];
  $("steps").replaceChildren();
  body.replaceChildren();
  write($("verdict"), "");
  $("results").hidden = $("next").hidden = true;
  $("work").hidden = false;
  if (isNew) $("h-work").focus();
  for (let seen = 0, isOver = false; !isOver;) {
    const answer = await ask(`jobs/${job}?since=${seen}`);
    if (answer.error) { write($("verdict"), "✕ " + answer.error); break; }
    seen += answer.lines.length;
    for (const line of answer.lines) take(line, answer.task, body);
    isOver = !answer.running;
    if (!isOver) await new Promise(done => setTimeout(done, POLL_MS));
  }
  $("bar").hidden = true;
  enable();
}

function take(line, task, body) {
  if (line.note) {
    const step = document.createElement("li");
    step.textContent = line.note;
    $("steps").append(step);
    $("bar").hidden = true;
  } else if (line.bar) {
    $("bar").hidden = false;
    $("bar").value = 100 * line.done / Math.max(line.total, 1);
    $("bar").setAttribute("aria-label", line.bar);
  } else if (line.kind) {
    if ($("board").value === line.kind) return;
    $("board").value = line.kind;
    showBoard();
  } else if (line.row !== undefined) {
    const row = body.insertRow(), name = document.createElement("th");
    name.scope = "row";
    name.textContent = line.row;
    row.append(name);
    row.insertCell().textContent = (line.good ? "" : "✕ ") + line.text;
    if (!line.good) row.className = "bad";
    $("results").hidden = false;
  } else if (line.end) {
    end(line, task);
  }
}

function end(line, task) {
  const failedTest = "✕ It is on the board, but a test failed: see the result marked ✕.";
  const texts = {good: DONE[task], failed: task === "kind" ? "✕ Choose by hand." : failedTest};
  write($("verdict"), texts[line.end] || "✕ " + line.text);
  $("verdict").dataset.end = line.end;
  $("next").hidden = line.end !== "good" || task !== "flash";
}
