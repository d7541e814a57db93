// The page: shows /v1/status once a second, and opens streams of records. No framework and no build step.
import { openStream } from "./stream.js";

const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const cards = new Map(); // topic -> its element
const before = { at: 0, records: null };

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return (i && n < 10 ? n.toFixed(1) : Math.round(n)) + " " + units[i];
}

function span(seconds) {
  if (seconds < 60) return Math.round(seconds) + " s";
  if (seconds < 3600) return Math.floor(seconds / 60) + " min";
  if (seconds < 86400) return Math.floor(seconds / 3600) + " h " + Math.floor((seconds % 3600) / 60) + " min";
  return Math.floor(seconds / 86400) + " d";
}

function plural(n, one) {
  return number.format(n) + " " + one + (n === 1 ? "" : "s");
}

async function json(path) {
  const answer = await fetch(path);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  return body;
}

function showEngine(status, topics) {
  $("version").textContent = status.version;
  $("kafka").textContent = status.kafka;
  document.querySelectorAll(".kafka").forEach((e) => (e.textContent = status.kafka));
  $("lake").textContent = status.lake;
  $("uptime").textContent = span((Date.now() - Date.parse(status.started)) / 1000);
  let records = 0, lag = 0;
  for (const t of topics) for (const p of t.partitions) {
    records += p.end;
    lag += t.tiering ? p.lag : 0;
  }
  const now = performance.now();
  if (before.records !== null) {
    const rate = Math.max(0, (records - before.records) / ((now - before.at) / 1000));
    $("rate").textContent = number.format(Math.round(rate)) + "/s";
  }
  before.at = now;
  before.records = records;
  $("lag").textContent = plural(lag, "record");
}

function card(topic) {
  let e = cards.get(topic.name);
  if (e) return e;
  e = $("topic-template").content.firstElementChild.cloneNode(true);
  e.querySelector("h2").textContent = topic.name;
  e.querySelector(".read").onclick = () => openStream(topic.name, "earliest", false);
  e.querySelector(".tail").onclick = () => openStream(topic.name, "latest", true);
  const more = e.querySelector(".more"), details = e.querySelector(".details");
  more.onclick = async () => {
    details.hidden = !details.hidden;
    more.setAttribute("aria-expanded", String(!details.hidden));
    if (details.hidden) return;
    try {
      showDetails(details, await json("v1/topics/" + encodeURIComponent(topic.name)));
    } catch (error) {
      details.textContent = error.message;
    }
  };
  cards.set(topic.name, e);
  $("topics").append(e);
  return e;
}

function showTopic(topic) {
  const e = card(topic);
  const words = [plural(topic.partitions.reduce((n, p) => n + p.end, 0), "offset")];
  const t = topic.table;
  if (t) {
    const rows = t.rows === null ? "" : plural(t.rows, "row") + " in ";
    words.push(rows + plural(t.files, "file") + ", " + bytes(t.bytes), "version " + t.version + ", " + span((Date.now() - Date.parse(t.committed)) / 1000) + " old");
  } else {
    words.push("no table yet");
  }
  if (topic.tiering && topic.tiering.deadLetters) words.push(plural(topic.tiering.deadLetters, "dead letter"));
  if (topic.tiering && topic.tiering.lost) words.push(plural(topic.tiering.lost, "lost offset"));
  e.querySelector(".numbers").textContent = words.join(" \u00b7 ");
  e.querySelector(".error").hidden = !topic.error;
  e.querySelector(".error").textContent = topic.error ?? "";
  const list = e.querySelector(".partitions");
  while (list.children.length > topic.partitions.length) list.lastElementChild.remove();
  topic.partitions.forEach((p, i) => showPartition(list, list.children[i], topic, p));
}

function showPartition(list, row, topic, p) {
  if (!row) {
    row = document.createElement("div");
    row.className = "partition";
    row.innerHTML = '<span class="name"></span><button type="button" class="track"><i class="lake"></i><i class="both"></i><i class="log"></i></button><span class="range"></span>';
    list.append(row);
  }
  const track = row.querySelector(".track");
  row.querySelector(".name").textContent = "p" + p.partition;
  const whole = Math.max(1, p.end - p.start);
  const place = (part, from, to) => {
    const i = track.querySelector(part);
    i.style.left = (100 * (Math.max(from, p.start) - p.start)) / whole + "%";
    i.style.width = (100 * Math.max(0, to - Math.max(from, p.start))) / whole + "%";
  };
  place(".lake", p.start, Math.min(p.lakeEnd, p.logStart));
  place(".both", p.logStart, Math.max(p.logStart, p.lakeEnd));
  place(".log", Math.max(p.lakeEnd, p.logStart), p.end);
  track.title = `table up to ${p.lakeEnd}, log from ${p.logStart} to ${p.end}; click to read from there`;
  track.setAttribute("aria-label", `partition ${p.partition}: ${track.title}`);
  track.onclick = (event) => {
    const box = track.getBoundingClientRect();
    const share = event.detail === 0 ? 0 : (event.clientX - box.left) / box.width; // 0: by keyboard
    openStream(topic.name, p.partition + ":" + Math.max(p.start, Math.floor(p.start + share * whole)), true);
  };
  row.querySelector(".range").textContent = `${number.format(p.start)} .. ${number.format(p.end)}` + (topic.tiering ? `  lag ${number.format(p.lag)}` : "");
}

function element(name, text, parent) {
  const e = document.createElement(name);
  e.textContent = text;
  parent.append(e);
  return e;
}

function tableOf(parent, title, head, rows) {
  const box = document.createElement("div");
  parent.append(box);
  element("h3", title, box);
  const table = document.createElement("table");
  box.append(table);
  const tr = table.createTHead().insertRow();
  for (const h of head) element("th", h, tr);
  const body = table.createTBody();
  for (const r of rows) {
    const line = body.insertRow();
    for (const c of r) element("td", c, line);
  }
}

function showDetails(box, topic) {
  box.textContent = "";
  if (!topic.table) {
    box.textContent = "Nothing was tiered yet.";
    return;
  }
  const url = topic.table.url;
  const how = document.createElement("div");
  box.append(how);
  element("h3", "read it elsewhere", how);
  element("pre", "ledgerlake read " + url + " --limit 5", how);
  element("pre", `DuckDB   SELECT * FROM delta_scan('${url}');`, how);
  element("pre", `polars   polars.scan_delta("${url}").collect()`, how);
  element("pre", `Spark    spark.read.format("delta").load("${url.replace(/^s3:/, "s3a:")}")`, how);
  tableOf(box, "columns", ["name", "type"], (topic.columns ?? []).map((c) => [c.name, c.type]));
  tableOf(box, "newest commits", ["version", "time", "operation", "what"], (topic.commits ?? []).map((c) => [
    c.version, new Date(c.time).toLocaleTimeString(), c.operation,
    Object.entries(c.metrics ?? {}).map(([k, v]) => k + " " + v).join(", "),
  ]));
}

async function refresh() {
  try {
    const status = await json("v1/status");
    const topics = status.topics;
    $("offline").hidden = true;
    showEngine(status, topics);
    const names = new Set(topics.map((t) => t.name));
    for (const [name, e] of cards) if (!names.has(name)) {
      e.remove();
      cards.delete(name);
    }
    topics.forEach(showTopic);
    $("empty").hidden = topics.length > 0;
  } catch {
    $("offline").hidden = false;
  }
  setTimeout(refresh, document.hidden ? 5000 : 1000);
}

$("kafka").onclick = () => navigator.clipboard?.writeText($("kafka").textContent);
refresh();
