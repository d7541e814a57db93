// A stream of records, by server-sent events: the browser goes on by itself where a connection broke.
const $ = (id) => document.getElementById(id);
const keep = 500; // rows on the page at most

let source = null; // the open EventSource
let current = "";  // topic
let side = "log";
let shown = 0;
let paused = false;
let waiting = [];  // rows that came while paused, or since the last frame
let frame = 0;

function state(text) {
  $("stream-state").textContent = text;
}

function stop() {
  source?.close();
  source = null;
}

export function openStream(topic, from, follow) {
  current = topic;
  $("stream").hidden = false;
  $("stream-title").textContent = topic;
  $("from").value = from;
  $("follow").checked = follow;
  start();
  $("stream").scrollIntoView({ behavior: "smooth", block: "nearest" });
}

function start() {
  stop();
  shown = 0;
  paused = false;
  waiting = [];
  $("pause").textContent = "Pause";
  $("rows").textContent = "";
  state("connecting...");
  const follow = $("follow").checked;
  const q = new URLSearchParams({ from: $("from").value.trim() });
  if (follow) q.set("follow", "true");
  else q.set("limit", String(keep));
  const url = "v1/topics/" + encodeURIComponent(current) + "/records?" + q;
  const mine = (source = new EventSource(url));
  let answered = false;
  mine.onopen = () => {
    answered = true;
    state(follow ? "following" : "reading");
  };
  mine.onmessage = (e) => take({ row: e.data, side });
  mine.addEventListener("side", (e) => {
    const to = JSON.parse(e.data);
    if (shown + waiting.length > 0 && to !== side) take({ note: `the seam: from the ${side === "lake" ? "table" : "log"} into the ${to === "lake" ? "table" : "log"}`, kind: "seam" });
    side = to;
  });
  mine.addEventListener("gap", (e) => {
    const g = JSON.parse(e.data);
    take({ note: `partition ${g.partition}, offsets ${g.from} to ${g.to - 1}: ${g.reason}`, kind: "gap" });
  });
  mine.addEventListener("end", () => {
    stop();
    draw();
    state(shown >= keep ? `the first ${shown} records; follow to go on` : `all ${shown} records up to now`);
  });
  mine.addEventListener("failed", (e) => {
    stop();
    state("ended: " + JSON.parse(e.data));
  });
  mine.onerror = () => {
    if (source !== mine) return;
    if (mine.readyState !== EventSource.CLOSED) return state("the connection broke; going on from the last record...");
    if (!answered) explain(url); // an EventSource does not show the reason
    stop();
  };
}

async function explain(url) {
  try {
    const answer = await fetch(url);
    const body = answer.ok ? {} : await answer.json();
    state("refused: " + (body.error ?? "the server ended the connection"));
  } catch {
    state("the server does not answer");
  }
}

function take(item) {
  waiting.push(item);
  if (waiting.length > 4 * keep) waiting.splice(0, waiting.length - 4 * keep);
  if (!paused && !frame) frame = requestAnimationFrame(draw);
}

function draw() {
  frame = 0;
  if (paused) return;
  const only = $("filter").value;
  const body = $("rows");
  const scroll = body.closest(".scroll");
  const atEnd = scroll.scrollTop + scroll.clientHeight > scroll.scrollHeight - 40;
  for (const item of waiting.splice(0)) {
    if (item.note) {
      const cell = line(body, item.kind).insertCell();
      cell.colSpan = 6;
      cell.textContent = item.note;
      continue;
    }
    shown++;
    if (only && !text(item.row).includes(only)) continue;
    record(body, item);
  }
  while (body.rows.length > keep) body.deleteRow(0);
  if (atEnd) scroll.scrollTop = scroll.scrollHeight;
  if (source) state(`${shown.toLocaleString("en")} records` + (body.rows.length >= keep ? `, the last ${keep} are shown` : ""));
}

function line(body, kind) {
  const tr = body.insertRow();
  tr.className = kind;
  return tr;
}

// text has what a person may look for: the line, and its bytes as text.
function text(row) {
  const r = JSON.parse(row);
  return row + decode(r._key) + decode(r._value);
}

function record(body, item) {
  const r = JSON.parse(item.row);
  const { _partition, _offset, _timestamp, _key, _value, _headers, ...payload } = r;
  const tr = line(body, "");
  const mark = document.createElement("span");
  mark.className = "side " + item.side;
  mark.textContent = item.side;
  tr.insertCell().append(mark);
  for (const v of [_partition, _offset, _timestamp, decode(_key)]) tr.insertCell().textContent = v ?? "";
  const value = decode(_value);
  const short = value || JSON.stringify(payload);
  const cell = tr.insertCell();
  cell.className = "record";
  cell.textContent = short;
  cell.title = "Click for all columns";
  let open = false;
  cell.onclick = () => {
    if (String(getSelection())) return; // somebody marks text
    open = !open;
    cell.textContent = open ? JSON.stringify({ ...payload, _headers: (_headers ?? []).map((h) => ({ ...h, value: decode(h.value) })) }, null, 2) : short;
  };
}

// decode gives bytes as text, or as hexadecimal digits when they are none.
function decode(base64) {
  if (base64 === null || base64 === undefined) return "";
  const raw = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(raw);
  } catch {
    return "0x" + Array.from(raw.slice(0, 64), (b) => b.toString(16).padStart(2, "0")).join("") + (raw.length > 64 ? "..." : "");
  }
}

$("stream-form").onsubmit = (e) => {
  e.preventDefault();
  start();
};
$("pause").onclick = () => {
  paused = !paused;
  $("pause").textContent = paused ? "Go on" : "Pause";
  if (!paused) draw();
};
$("close").onclick = () => {
  stop();
  $("stream").hidden = true;
};
$("filter").oninput = () => draw();
