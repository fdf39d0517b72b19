"use strict";
// The page asks for samples, computes rates from two of them, and shows them. It only reads.
const PERIOD = 2000, HISTORY = 150, PORTS = 100, QUEUES = 8;
const NAMES = ["sluice_thread_", "sluice_rxq_", "sluice_port_", "sluice_datapath_", "sluice_megaflow", "sluice_upcalls", "sluice_bridge_ports",
  "sluice_conntrack_connections", "sluice_controller_", "sluice_build", "sluice_failed", "sluice_database_connected", "sluice_revalidator_",
  "sluice_flow_cache_hits", "sluice_drops", "sluice_metrics_omitted", "sluice_openflow_flows"];
const byId = (id) => document.getElementById(id);
const busyOf = new Map();
let before = null, now = null, paused = false, timer = 0;

// An element with properties and children; text is never read as HTML.
function el(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "text") made.textContent = value; else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}
function text(node, value) { if (node.textContent !== value) node.textContent = value; }

function si(n, digits = 1) {
  if (!isFinite(n)) return "–";
  const units = ["", " k", " M", " G", " T"];
  let i = 0;
  while (Math.abs(n) >= 1000 && i < 4) { n /= 1000; i++; }
  return (i === 0 && (Number.isInteger(n) || n >= 100) ? Math.round(n) : n.toFixed(digits)) + units[i];
}
const percent = (share) => Math.round(share * 100) + " %";

// Samples of one answer: value(name, labels…).
class Samples {
  constructor(answer) {
    this.at = performance.now() / 1000;
    this.families = new Map();
    for (const [name, family] of Object.entries(answer.metrics)) {
      this.families.set(name, new Map(family.samples.map(([labels, value]) => [labels.join("\u0000"), { labels, value }])));
    }
  }
  all(name) { const found = this.families.get("sluice_" + name); return found ? [...found.values()] : []; }
  value(name, ...labels) { return this.families.get("sluice_" + name)?.get(labels.join("\u0000"))?.value; }
}
function rate(name, ...labels) {
  const value = now.value(name, ...labels);
  if (!before || value === undefined) return 0;
  return Math.max(0, value - (before.value(name, ...labels) ?? 0)) / Math.max(now.at - before.at, 0.1);
}
const sum = (name) => now.all(name).reduce((total, s) => total + s.value, 0);
const sumRate = (name) => now.all(name).reduce((total, s) => total + rate(name, ...s.labels), 0);

// Rows of a table by key: rows that stay keep their elements, so that focus and selection stay too.
function rows(body, list, key, cells) {
  const known = new Map([...body.children].map((row) => [row.dataset.key, row]));
  list.forEach((item, at) => {
    const id = key(item);
    const row = known.get(id) || el("tr", { "data-key": id });
    known.delete(id);
    const wanted = cells(item);
    wanted.forEach((cell, i) => {
      let made = row.children[i];
      if (!made) { made = el(i === 0 && cell.head ? "th" : "td", cell.head ? { scope: "row" } : {}); row.append(made); }
      const name = cell.class || "";
      if (made.className !== name) made.className = name;
      if (cell.node) { if (!made.firstChild) made.append(cell.node()); } else text(made, cell.text);
    });
    if (body.children[at] !== row) body.insertBefore(row, body.children[at] || null);
  });
  // The rows of the list come first; those behind it are old, also when two items have the same key.
  while (body.children.length > list.length) body.lastElementChild.remove();
}
const number = (n, bad) => ({ text: si(n), class: bad && n > 0 ? "n bad" : "n" });

function showSummary() {
  const cells = [
    ["Received packets/s", si(sumRate("datapath_received_packets_total"))],
    ["Sent packets/s", si(sumRate("datapath_sent_packets_total"))],
    ["Dropped packets/s", si(sumRate("datapath_dropped_packets_total")), sumRate("datapath_dropped_packets_total") > 0],
    ["Upcalls/s", si(sumRate("upcalls_total"))],
    ["Megaflows", si(sum("megaflows"))],
    ["OpenFlow flows", si(sum("openflow_flows"))],
    ["Connections tracked", si(sum("conntrack_connections"))],
    ["Ports", si(sum("bridge_ports"))],
  ];
  const list = byId("summary");
  cells.forEach(([name, value, bad], i) => {
    const group = list.children[i] || list.appendChild(el("div", {}, el("dt", { text: name }), el("dd")));
    text(group.lastChild, value);
    group.lastChild.className = bad ? "bad" : "";
  });
  const build = now.all("build_info")[0];
  if (build) text(byId("build"), `${build.labels[0]}, interfaces of Open vSwitch ${build.labels[1]}`);
}

// Cycles per packet of each stage of the path, from one iteration in 1,024; empty before the first sample.
const STAGES = ["receive", "extract", "lookup", "execute", "transmit", "overhead"];
function stages(datapath, thread) {
  const packets = now.value("thread_stage_sampled_packets_total", datapath, thread) || 0;
  const grown = packets - (before?.value("thread_stage_sampled_packets_total", datapath, thread) || 0);
  // In a quiet moment no iteration may have been sampled: then the average since the start is shown.
  const recent = before && grown > 0;
  if (!packets) return "";
  return STAGES.map((stage) => {
    const all = now.value("thread_stage_sampled_cycles_total", datapath, thread, stage) || 0;
    const old = recent ? before.value("thread_stage_sampled_cycles_total", datapath, thread, stage) || 0 : 0;
    return `${stage} ${si((all - old) / (recent ? grown : packets), 0)}`;
  }).join(", ");
}
// The time within which 99 % of the packets of a queue have passed, since the last sample or since the start.
function within(labels) {
  const value = now.value("rxq_latency_bound_seconds", ...labels);
  if (!value) return "";
  const old = before?.value("rxq_latency_bound_seconds", ...labels);
  const recent = old && value.count > old.count;
  const of = (i) => value.buckets[i][1] - (recent ? old.buckets[i][1] : 0);
  const most = of(value.buckets.length - 1) * 0.99;
  const bound = value.buckets.find((_, i) => of(i) >= most)[0];
  return bound === null ? "> 33 ms" : bound < 0.001 ? `≤ ${Math.round(bound * 1e6)} µs` : `≤ ${Math.round(bound * 1e3)} ms`;
}

function threads() {
  return now.all("thread_busy_seconds_total").map(({ labels: [datapath, thread] }) => {
    const of = (name) => rate("thread_" + name + "_seconds_total", datapath, thread);
    const busy = of("busy"), all = busy + of("idle") + of("sleep");
    const packets = rate("thread_received_packets_total", datapath, thread);
    const cycles = rate("thread_busy_cycles_total", datapath, thread);
    return { key: datapath + " " + thread, datapath, thread, busy: all > 0 ? Math.min(busy / Math.max(all, 0.5), 1) : 0, packets,
      isolated: now.value("thread_isolated", datapath, thread) === 1, stages: stages(datapath, thread), cost: packets > 0 ? cycles / packets : 0, numa: now.value("thread_numa_node", datapath, thread) };
  });
}
function queues() {
  return now.all("rxq_core").map(({ labels, value }) => {
    const [datapath, port, queue] = labels;
    const bursts = rate("rxq_bursts_total", ...labels);
    return { datapath, port, queue, within: within(labels), thread: value < 0 ? "kernel-ports" : "pmd-c" + String(value).padStart(2, "0"),
      load: rate("rxq_busy_seconds_total", ...labels), packets: rate("rxq_packets_total", ...labels), enabled: now.value("rxq_enabled", ...labels) !== 0,
      full: bursts > 0 ? rate("rxq_full_bursts_total", ...labels) / bursts : 0 };
  });
}

function drawLoad(svg, values) {
  const NS = "http://www.w3.org/2000/svg";
  if (!svg.firstChild) {
    for (const name of ["area", "edge"]) {
      const path = document.createElementNS(NS, "path");
      path.setAttribute("class", name);
      svg.append(path);
    }
  }
  const x = (i) => ((HISTORY - values.length + i) / (HISTORY - 1) * 100).toFixed(2), y = (v) => (39 - v * 38).toFixed(2);
  const line = values.map((v, i) => `${x(i)} ${y(v)}`).join("L");
  svg.children[0].setAttribute("d", values.length ? `M${x(0)} 40L${line}L100 40Z` : "");
  svg.children[1].setAttribute("d", values.length > 1 ? `M${line}` : "");
  const most = Math.max(...values, 0), least = Math.min(...values, 1);
  svg.setAttribute("aria-label", `busy ${percent(values.at(-1) || 0)} now, between ${percent(least)} and ${percent(most)} in the last five minutes`);
}

function showThreads(all, rxqs) {
  const holder = byId("cards");
  const known = new Map([...holder.children].map((card) => [card.dataset.key, card]));
  for (const t of all) {
    let card = known.get(t.key);
    if (!card) {
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      svg.setAttribute("viewBox", "0 0 100 40");
      svg.setAttribute("preserveAspectRatio", "none");
      svg.setAttribute("role", "img");
      card = el("article", { class: "card", "data-key": t.key }, el("h3", {}, el("span", { text: t.thread }), el("span")), el("p"), svg,
        el("p", { class: "note" }), el("ul", { class: "queues" }), el("p"));
      holder.append(card);
    }
    known.delete(t.key);
    const [head, facts, svg, costs, list, more] = card.children;
    text(head.lastChild, percent(t.busy) + " busy");
    head.lastChild.className = t.busy > 0.9 ? "bad" : "";
    const cost = t.packets > 0 ? `, ${si(t.cost, 0)} cycles each` : "";
    text(facts, `${si(t.packets)} packets/s${cost}; NUMA node ${t.numa}; ${t.datapath}`);
    drawLoad(svg, busyOf.get(t.key) || []);
    text(costs, t.stages ? `Cycles of a packet: ${t.stages}` : "");
    const own = rxqs.filter((q) => q.datapath === t.datapath && q.thread === t.thread).sort((a, b) => b.load - a.load || (a.port + a.queue).localeCompare(b.port + b.queue));
    showQueues(list, own.slice(0, QUEUES));
    text(more, own.length > QUEUES ? `and ${own.length - QUEUES} queues with less load` : own.length ? "" : "polls no queue");
  }
  known.forEach((card) => card.remove());
}
function showQueues(list, own) {
  while (list.children.length > own.length) list.lastChild.remove();
  own.forEach((q, i) => {
    const item = list.children[i] || list.appendChild(el("li", {}, el("span", { class: "name" }), el("span", { class: "bar", "aria-hidden": "true" }, el("i")),
      el("span", { class: "v" }), el("span", { class: "v" }), el("span", { class: "v" })));
    const [name, bar, load, packets, stay] = item.children;
    text(name, `${q.port} · ${q.queue}${q.enabled ? "" : " (unused)"}`);
    name.title = `port ${q.port}, queue ${q.queue}`;
    bar.className = q.full > 0.5 ? "bar full" : "bar";
    bar.title = q.full > 0.5 ? "most polls find a full burst: packets are waiting in the queue" : "";
    bar.firstChild.style.width = Math.min(q.load, 1) * 100 + "%";
    text(load, percent(Math.min(q.load, 1)));
    text(packets, si(q.packets) + "/s");
    text(stay, q.within);
    stay.title = q.within ? "99 % of the packets have passed the switch within this time, as far as one poll of the queue tells" : "";
  });
}

function ports() {
  return now.all("port_info").map(({ labels: [bridge, port, type, ofport, logical] }) => {
    const r = (name) => rate(`port_${name}_total`, bridge, port), v = (name) => now.value(`port_${name}_total`, bridge, port) || 0;
    return { bridge, port, type, ofport, logical, up: now.value("port_up", bridge, port) === 1, rx: r("receive_packets"), rxBits: r("receive_bytes") * 8,
      tx: r("transmit_packets"), txBits: r("transmit_bytes") * 8, dropRate: r("receive_dropped_packets") + r("transmit_dropped_packets"),
      drops: v("receive_dropped_packets") + v("transmit_dropped_packets"), errors: v("receive_errors") + v("transmit_errors"),
      flaps: v("link_changes"), vlan: now.value("port_vlan", bridge, port), mtu: now.value("port_mtu_bytes", bridge, port), bfd: now.value("port_bfd_up", bridge, port), lacp: now.value("port_lacp_current", bridge, port) };
  });
}
function showPorts(all) {
  const filter = byId("port-filter").value.toLowerCase(), sort = byId("port-sort").value;
  const found = all.filter((p) => (p.port + " " + p.bridge + " " + p.logical).toLowerCase().includes(filter));
  const order = { traffic: (p) => p.rx + p.tx, drops: (p) => p.dropRate * 1e6 + p.drops, name: () => 0 }[sort];
  found.sort((a, b) => order(b) - order(a) || a.bridge.localeCompare(b.bridge) || a.port.localeCompare(b.port));
  rows(byId("port-rows"), found.slice(0, PORTS), (p) => p.bridge + " " + p.port, (p) => [
    { text: p.port, head: true }, { text: p.logical }, { text: p.bridge }, { text: `${p.type} (${p.ofport})` }, { text: p.vlan === undefined ? "" : String(p.vlan), class: "n" },
    { text: (p.up ? "up" : "down") + (p.flaps > 2 ? `, changed ${p.flaps} times` : "") + (p.bfd === 0 ? ", BFD down" : "") + (p.lacp === 0 ? ", no LACP partner" : ""), class: p.up || p.type === "internal" ? "" : "bad" },
    number(p.rx), number(p.rxBits), number(p.tx), number(p.txBits), number(p.dropRate, true), number(p.drops), number(p.errors, true)]);
  const left = sum("metrics_omitted_objects");
  text(byId("port-more"), (found.length > PORTS ? `${PORTS} of ${found.length} ports are shown. ` : "") + (left ? `${left} objects are not in the metrics.` : ""));
}

// Whether a link changes: since this page was opened more than once, or in the last minute.
const linkChanges = new Map();
function flapping(p) {
  const key = p.bridge + " " + p.port, at = performance.now() / 1000;
  const known = linkChanges.get(key) || linkChanges.set(key, { first: p.flaps, last: p.flaps, at: -Infinity }).get(key);
  if (p.flaps !== known.last) Object.assign(known, { last: p.flaps, at });
  return p.flaps > 2 && (at - known.at < 60 || p.flaps - known.first > 1);
}
// The ports at which packets are dropped for a reason now, those with the most first.
function places(datapath, reason) {
  const all = now.all("port_drops_total").filter(({ labels: l }) => l[0] === datapath && l[3] === reason).map((s) => [rate("port_drops_total", ...s.labels), s.labels]);
  const some = all.filter(([perSecond]) => perSecond > 0).sort((a, b) => b[0] - a[0]);
  const named = some.slice(0, 2).map(([, l]) => `${l[2] === "receive" ? "in by" : "out by"} ${l[1]}`);
  return (named.length ? ", " : "") + named.join(", ") + (some.length > 2 ? " and others" : "");
}

let mostMasks = [];
function findings(all, rxqs, list) {
  const found = [];
  const add = (href, textOf, bad = true) => found.push({ href, text: textOf, bad });
  if (now.value("database_connected") === 0) add("#summary", "The database is not connected: changes of the configuration do not arrive.");
  if (now.value("failed_interfaces") > 0) add("#ports", `${now.value("failed_interfaces")} interfaces could not be created or lost their device: see their column error.`);
  for (const c of now.all("controller_connected").filter((c) => c.value === 0)) add("#summary", `Bridge ${c.labels[0]}: controller ${c.labels[1]} is not connected.`);
  const polled = all.filter((t) => t.thread !== "kernel-ports");
  for (const t of all.filter((t) => t.busy > 0.9 && t.packets > 1000)) add("#threads", `Thread ${t.thread} is ${percent(t.busy)} busy.`);
  const loads = polled.map((t) => t.busy);
  if (loads.length > 1 && Math.max(...loads) > 0.8 && Math.max(...loads) - Math.min(...loads) > 0.5) {
    const [most, least] = [Math.max, Math.min].map((pick) => polled.find((t) => t.busy === pick(...loads)));
    const how = most.isolated ? `The queues of ${most.thread} are bound to it (pmd-rxq-affinity), so they stay there.` : "sluice pmd plan shows what moving queues would do.";
    add("#threads", `Poll threads are unbalanced: ${most.thread} is ${percent(most.busy)} busy, ${least.thread} ${percent(least.busy)}. ${how}`);
  }
  for (const q of rxqs.filter((q) => q.full > 0.5 && q.packets > 1000).slice(0, 5)) add("#threads", `Port ${q.port}, queue ${q.queue}: most polls find a full burst, so its ring is full. Thread ${q.thread} does not keep up.`);
  for (const p of list.filter(flapping).slice(0, 5)) add("#ports", `Port ${p.port}: its link comes and goes; it has changed ${p.flaps} times.`);
  for (const p of list.filter((p) => p.bfd === 0).slice(0, 5)) add("#ports", `Port ${p.port}: its BFD session is down.`);
  for (const p of list.filter((p) => p.lacp === 0).slice(0, 5)) add("#ports", `Port ${p.port}: no current LACP partner.`);
  const down = list.filter((p) => !p.up && p.type !== "internal");
  if (down.length) add("#ports", `${down.length === 1 ? "Port" : "Ports"} without link: ${down.slice(0, 5).map((p) => p.port).join(", ")}${down.length > 5 ? " and others" : ""}.`);
  for (const s of now.all("drops_total")) {
    const perSecond = rate("drops_total", ...s.labels);
    if (perSecond > 0) add("#lost", `${si(perSecond)} packets/s are dropped: ${s.labels[1].replaceAll("_", " ")}${places(...s.labels)}.`);
  }
  for (const s of now.all("megaflows")) {
    const limit = now.value("megaflows_limit", ...s.labels), masks = now.value("megaflow_port_masks", ...s.labels);
    const most = mostMasks.find((m) => m.datapath === s.labels[0]);
    if (limit && s.value > 0.9 * limit) add("#megaflows", `Megaflows are near their limit: ${si(s.value)} of ${si(limit)}.`);
    const port = `Port ${most?.port || "?"}`, allowed = most?.limit ?? 64;
    const many = masks >= allowed ? `${port} has all of its ${allowed} masks: its new megaflows match exactly` : `${port}: its megaflows have ${masks} masks, of at most ${allowed}`;
    if (masks >= 32) add("#megaflows", `${many}. Each mask costs a look-up for a packet that the flow cache does not find.`);
  }
  for (const s of now.all("conntrack_connections")) {
    const limit = now.value("conntrack_connections_limit", ...s.labels);
    if (limit && s.value > 0.9 * limit) add("#summary", `Connection tracking is nearly full: ${si(s.value)} of ${si(limit)}.`);
  }
  if (sumRate("upcalls_total") > 5000) add("#megaflows", `${si(sumRate("upcalls_total"))} upcalls/s: most packets are of new flows.`);
  if (!found.length) add("#summary", before ? "Nothing stands out." : "Rates are known with the next sample.", false);
  const holder = byId("findings"), same = found.map((f) => f.text).join("\n");
  if (holder.dataset.shown !== same) {
    holder.dataset.shown = same;
    holder.replaceChildren(...found.map((f) => el("li", { class: f.bad ? "bad" : "" }, f.text + " ", ...(f.bad ? [el("a", { href: f.href, text: "Show" })] : []))));
  }
}

const mtuOf = (port) => now?.all("port_mtu_bytes").find((s) => s.labels[1] === port)?.value;
// The ports with the most drops for a reason.
function portsOf(r) {
  const mtu = (p) => r.reason === "tx_mtu_exceeded" && mtuOf(p.port) ? `, MTU ${mtuOf(p.port)}` : "";
  const named = r.ports.slice(0, 3).map((p) => `${p.direction === "receive" ? "in by" : "out by"} ${p.port} (${si(p.packets)}${mtu(p)})`);
  return named.join(", ") + (r.ports.length > 3 ? " and others" : "");
}
let dropsBefore = null, help = new Map(), megaflows = [];
function showDrops(answer) {
  const at = performance.now() / 1000;
  const total = (r) => Object.values(r.packets).reduce((a, b) => a + b, 0);
  const list = answer.reasons.map((r) => {
    const n = total(r), was = dropsBefore?.counts.get(r.reason);
    return { ...r, n, rate: was === undefined ? 0 : Math.max(0, n - was) / Math.max(at - dropsBefore.at, 0.1) };
  });
  dropsBefore = { at, counts: new Map(list.map((r) => [r.reason, r.n])) };
  const some = list.filter((r) => r.n > 0).sort((a, b) => b.rate - a.rate || b.n - a.n);
  byId("no-drops").hidden = some.length > 0;
  help = new Map(list.map((r) => [r.reason, r]));
  byId("reasons").parentNode.hidden = some.length === 0;
  byId("recent").parentNode.hidden = answer.recent.length === 0;
  rows(byId("reason-rows"), some, (r) => r.reason, (r) => [{ text: r.reason.replaceAll("_", " "), head: true }, { text: r.help + (r.command ? ` See: ${r.command}` : "") }, { text: portsOf(r) }, number(r.rate, true), number(r.n)]);
  rows(byId("recent-rows"), answer.recent.slice(0, 20), (d) => [d.datapath, d.direction, d.port, d.reason, d.flow].join(" "), (d) => [
    { node: () => d.flow ? whyButton(d) : el("span") },
    { text: d.seconds < 60 ? `${d.seconds.toFixed(0)} s ago` : `${Math.floor(d.seconds / 60)} min ago`, class: "n" },
    { text: `${d.direction === "receive" ? "in by" : "out by"} ${d.port || "a port that is gone"}` }, { text: d.reason.replaceAll("_", " ") + (d.hint ? ` (${d.hint})` : "") },
    { text: d.flow || "bytes not known", class: "code" }]);
}
function whyButton(d) {
  const button = el("button", { type: "button", text: "Why?" });
  button.addEventListener("click", () => {
    if (d.bridge) byId("trace-bridge").value = d.bridge;
    byId("trace-flow").value = d.flow;
    byId("trace").scrollIntoView();
    byId("trace-result").focus({ preventScroll: true });
    why(d);
  });
  return button;
}

function showMegaflows(answer) {
  megaflows = answer.megaflows;
  const some = answer.visited < answer.total ? ` ${answer.visited} were compared.` : "";
  text(byId("megaflow-note"), `${answer.total} megaflow${answer.total === 1 ? "" : "s"}.${some}`);
  rows(byId("megaflow-rows"), answer.megaflows.slice(0, 20), (f) => f.datapath + f.ufid, (f) => [
    { text: f.packets_per_second === null ? "–" : si(f.packets_per_second), class: "n" }, { text: si(f.packets), class: "n" },
    { text: f.match, class: "code" }, { text: f.drop ? "drop: " + f.drop.replaceAll("_", " ") : f.actions, class: f.drop ? "code bad" : "code" }]);
}

// The text of a trace, as steps: each look-up with the actions that follow, then what comes of it.
function pipeline(report) {
  const steps = [];
  let bridge = "", step = null;
  for (const line of report.split("\n")) {
    const inBridge = line.match(/^\s*bridge\("([^"]*)"\)/), lookup = line.match(/^\s*(\d+)\. (.*)$/), result = line.match(/^(Final flow|Megaflow|Datapath actions): (.*)$/);
    if (inBridge) bridge = inBridge[1];
    else if (lookup) steps.push(step = { where: `${bridge}, table ${lookup[1]}`, match: lookup[2], actions: [] });
    else if (result) { step = null; steps.push({ result: result[1], match: result[2], actions: [] }); }
    else if (/^recirc\(/.test(line)) { step = null; steps.push({ where: "the packet goes through the tables again", match: line, actions: [] }); }
    else if (step && /^\s+\S/.test(line)) step.actions.push(line.trim());
  }
  const list = el("ol", { class: "pipeline" });
  for (const s of steps) {
    const drop = s.result === "Datapath actions" && /^drop/.test(s.match) || s.actions.includes("drop");
    list.append(el("li", { class: [s.result ? "result" : "", drop ? "drop" : ""].join(" ").trim() }, el("div", { class: "where", text: s.result || s.where }), el("div", { class: "code", text: s.match }),
      ...(s.actions.length ? [el("ul", {}, ...s.actions.map((a) => el("li", { class: "code", text: a })))] : [])));
  }
  return list;
}
// The pipeline of a trace, and its text to unfold.
function drawn(text) {
  const list = pipeline(text), found = list.children.length > 0;
  return [...(found ? [list] : []), el("details", found ? {} : { open: "" }, el("summary", { text: "The whole text" }), el("pre", { text }))];
}
async function ask(url, show) {
  const holder = byId("trace-result");
  try {
    const answer = await (await fetch(url)).json();
    holder.replaceChildren(...(answer.error ? [el("p", { class: "bad", text: answer.error })] : show(answer)));
  } catch (e) {
    holder.replaceChildren(el("p", { class: "bad", text: "The switch does not answer." }));
  }
}
const trace = (url) => ask(url, (answer) => drawn(answer.text));

// The fields of a flow that its packets have wherever they come in.
const FIELDS = /^(dl_(vlan|vlan_pcp|src|dst|type)|nw_(src|dst|proto|tos|ttl)|ipv6_(src|dst)|tp_(src|dst)|tcp_flags|icmp_type|icmp_code|arp_\w+|nd_target)=|^[a-z0-9]+$/;
// The port that received a packet: of a packet that should have been sent, that of the megaflow with its address.
function receiver(d) {
  if (d.direction === "receive") return d.port;
  const source = d.flow.match(/dl_src=([0-9a-f:]+)/)?.[1];
  const from = megaflows.filter((f) => f.datapath === d.datapath && source && f.match.includes(`src=${source}`)).map((f) => f.match.match(/in_port\(([^)]+)\)/)?.[1]);
  return from[0];
}
function why(d) {
  // A packet that should have been sent may have got its VLAN from the port that received it.
  const own = (field) => FIELDS.test(field) && !(d.direction === "transmit" && field.startsWith("dl_vlan"));
  const port = receiver(d), flow = d.flow.split(",").filter(own).join(",");
  return ask("/api/why?" + new URLSearchParams({ flow, ...(port ? { port } : {}) }), (answer) => {
    const tables = answer.tables, text = tables?.trace;
    return [el("ul", { class: "sentences" }, ...sentences(d, answer).map((s) => el("li", { text: s }))), ...(text ? drawn(text) : [])];
  });
}
// What is known of a dropped packet, in sentences.
function sentences(d, answer) {
  const t = answer.tables, out = [], sent = d.direction === "transmit", at = d.port || "a port that is gone", reason = help.get(d.reason);
  out.push(`${sent ? `Port ${at} should have sent a packet of ${d.bytes} bytes, and dropped it` : `A packet of ${d.bytes} bytes that came in by port ${at} was dropped`}: ${d.reason.replaceAll("_", " ")}. ${reason?.help || ""}`);
  const same = answer["recent-drops"].find((r) => r.port === d.port && r.reason === reason?.counter);
  const rule = same?.["decided-by"], plain = (text) => text.replace(/duration=[^,]*, n_packets=[^,]*, n_bytes=[^,]*, ,?/, "");
  if (same?.problem) out.push(same.problem);
  if (rule) out.push(`${rule["drops-now"] ? "The rule that drops it" : "The present tables would not drop it; they end with the rule"}, bridge ${rule.bridge}: ${plain(rule.rule)}`);
  else if (t?.rule) out.push(`The last rule, bridge ${t.bridge}: ${plain(t.rule)}`);
  if (/invalid/.test(d.hint || "")) out.push("For connection tracking the packet is invalid: it has not seen both directions of the connection from the beginning, as with asymmetric routing.");
  else if (d.hint) out.push(`Its cause may be that ${d.hint}.`);
  if (d.reason === "tx_mtu_exceeded" && mtuOf(d.port)) out.push(`The MTU of port ${d.port} is ${mtuOf(d.port)} bytes; the packet has ${d.bytes - 14} behind its Ethernet header.`);
  if (t?.["vlan-of-port"] && /NORMAL/.test(t.rule || "")) {
    const others = t["other-vlan-ports"].map((p) => `${p.name} (${p.vlan})`), own = t["vlan-ports"];
    const list = (all) => all.slice(0, 6).join(", ") + (all.length > 6 ? ` and ${all.length - 6} others` : "");
    if (others.length) out.push(`Port ${t.port.name} is ${/^[aeiou]/.test(t["vlan-of-port"]) ? "an" : "a"} ${t["vlan-of-port"]}, so the packet is in VLAN ${t.vlan}. ${own.length ? "Other ports in it: " + list(own) : "No other port is in it"}; not in it: ${list(others)}.`);
  }
  for (const p of t?.outputs || []) {
    if (p.up === false) out.push(`Port ${p.name} is down.`);
    else if (p.link === false) out.push(`Port ${p.name} has no link.`);
  }
  if (reason?.command) out.push(`See: ${reason.command}`);
  return out;
}

async function get(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error((await response.text()).trim() || response.status);
  return response.json();
}
function show() {
  const all = threads(), rxqs = queues(), list = ports();
  if (before) {
    for (const t of all) {
      const values = busyOf.get(t.key) || [];
      values.push(t.busy);
      busyOf.set(t.key, values.slice(-HISTORY));
    }
  }
  showSummary();
  findings(all, rxqs, list);
  showThreads(all, rxqs);
  showPorts(list);
  const bridges = now.all("bridge_ports").map((s) => s.labels[0]).sort(), select = byId("trace-bridge");
  if ([...select.options].map((o) => o.value).join() !== bridges.join()) {
    const chosen = select.value;
    select.replaceChildren(...bridges.map((name) => el("option", { value: name, text: name })));
    if (bridges.includes(chosen)) select.value = chosen;
  }
}
async function update() {
  clearTimeout(timer);
  const error = byId("error");
  try {
    const query = new URLSearchParams(NAMES.map((name) => ["name", name]));
    const [metrics, drops, flows] = [await get("/api/metrics?" + query), await get("/api/drops"), await get("/api/megaflows")];
    before = now;
    now = new Samples(metrics);
    mostMasks = flows.most_masks;
    show();
    showDrops(drops);
    showMegaflows(flows);
    error.hidden = true;
  } catch (e) {
    text(error, `The switch does not answer (${e.message}). The numbers below are old.`);
    error.hidden = false;
  }
  if (!paused) timer = setTimeout(update, document.hidden ? PERIOD * 5 : PERIOD);
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", paused);
  text(byId("pause"), paused ? "Continue" : "Pause");
  if (paused) clearTimeout(timer); else update();
});
for (const id of ["port-filter", "port-sort"]) byId(id).addEventListener("input", () => now && showPorts(ports()));
byId("trace-form").addEventListener("submit", (event) => {
  event.preventDefault();
  trace("/api/trace?" + new URLSearchParams({ bridge: byId("trace-bridge").value, flow: byId("trace-flow").value }));
});
byId("trace-last").addEventListener("click", () => trace("/api/last-drop"));
update();
