(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const named = (names, values) => Object.fromEntries(names.map((name, i) => [name, values[i] ?? null]));
  for (const row of data.rows) row.cells = named(data.columns.map((c) => c.key), row.cells.map((cell) => named(data.fields, cell)));
  const palette = ["var(--hue-0)", "#56B4E9", "#E69F00", "#D55E00", "#CC79A7", "#009E73", "#0072B2", "#999999", "#882255"];
  const known = ["vanilla", "ln", "at", "fgai", "fgai-attention", "pro-gnn", "gnn-svd", "gnnguard", "gcn"];
  const { make, draw, span, frame, key, stroke, shapes } = plots;
  const $ = (id) => document.getElementById(id);
  const titles = new Map(Object.entries(data.titles)); // a plain object would answer for "constructor", too
  const say = (name) => titles.get(name) ?? name;
  const distinct = (values) => [...new Set(values)];
  const under = (attack) => (attack === "injection" ? "the published attack" : attack);
  const phone = matchMedia("(max-width: 600px)");

  // Black is the vanilla model's: what is not ours takes the rest of the palette in turn. Tuned settings keep the hue.
  const untuned = (label) => label.replace(/ tuned$/, "");
  const base = (label) => untuned(label).replace(/-sparse$/, "");
  const others = distinct(data.rows.map((r) => base(r.defense))).filter((l) => !known.includes(l));
  const hue = (label) => (known.includes(base(label)) ? palette[known.indexOf(base(label))]
    : palette[1 + (Math.max(0, others.indexOf(base(label))) % (palette.length - 1))]);

  // The tooltip: for a mouse that hovers, and for a finger that taps.
  const tip = $("tip");
  function explain(node, text) {
    const show = (event) => {
      tip.textContent = text;
      tip.hidden = false;
      tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)}px`;
      tip.style.top = `${Math.max(8, event.clientY - tip.offsetHeight - 12)}px`;
    };
    node.addEventListener("pointerenter", show);
    node.addEventListener("pointermove", show);
    node.addEventListener("pointerleave", () => { tip.hidden = true; });
  }
  function picker(form, id, word, values, changed, all = true) {
    const select = make("select", { id, onchange: changed });
    if (all) select.append(make("option", { value: "" }, "all"));
    for (const value of values) select.append(make("option", { value }, say(value)));
    form.append(make("label", { for: id }, word, select));
    return select;
  }

  // The answer for the chosen model: sentences, a matrix for each task, stability against correctness.
  let view = data.models[0] ?? "";
  for (const model of data.models) {
    const radio = make("input", { type: "radio", name: "view", value: model, onchange: () => { choose(model); changed(); } });
    $("models").append(make("label", {}, radio, say(model)));
  }
  const own = () => data.answers.filter((a) => a.model === view);
  function choose(model) {
    view = model;
    const [first] = own();
    for (const [name, value] of [["model", model], ["attack", first?.attack], ["suite", first?.suite]]) set(filters.get(name), value);
  }
  function answer() {
    for (const radio of document.querySelectorAll("#models input")) radio.checked = radio.value === view;
    const said = data.headlines[view] ?? ["This run holds no attack to answer from."];
    $("said").replaceChildren(...said.map((sentence) => make("p", {}, sentence)));
    $("sentences").replaceChildren(...own().map((a) => make("li", {}, make("strong", {}, a.subject), `: ${a.verdict}`)));
    $("notes").replaceChildren(...data.notes.map((note) => make("p", {}, note)));
    const [first, ...others] = distinct(own().map((a) => a.task)).map((task) => matrix(own().filter((a) => a.task === task)));
    $("matrix").replaceChildren(first ?? "");
    $("further").replaceChildren(...others);
    explanations();
  }
  function matrix(graphs) {
    const attacks = distinct(graphs.map((a) => a.attack));
    const suites = distinct(graphs.map((a) => a.suite));
    const weak = graphs.some((a) => a.stands.some((s) => s.unreliable));
    const told = attacks[0] === "worst" ? " in the worst case" : ` under ${under(attacks[0])}`;
    const words = `${graphs[0].question}, ${say(view)}: clean → attacked ${graphs[0].score} [95 % interval]` +
      `${attacks.length === 1 ? told : ""}. Shaded: first, or not told from it.${weak ? " † unreliable." : ""}`;
    const head = make("tr", {}, make("th", { scope: "col" }, "defense"), ...graphs.map((a) => make("th", { scope: "col" }, say(a.dataset),
      attacks.length > 1 ? make("span", { class: "interval" }, under(a.attack)) : "",
      suites.length > 1 && a.suite !== suites[0] ? make("span", { class: "interval" }, `suite ${a.suite}`) : "")));
    const rows = distinct(graphs.flatMap((a) => a.stands.map((s) => s.defense))).map((defense) =>
      make("tr", {}, make("th", { scope: "row" }, say(defense)), ...graphs.map((a) => {
        const s = a.stands.find((one) => one.defense === defense);
        if (!s || s.gap) return make("td", { class: "small" }, s ? s.attacked : "--");
        const rank = s.rank === null ? "not ranked" : `rank ${s.rank}`;
        return make("td", { class: s.rank === 1 ? "first" : "", title: rank }, `${s.clean} → ${s.attacked}${s.unreliable ? "†" : ""}`,
          make("span", { class: "interval" }, s.interval));
      })));
    return make("table", { class: "matrix" }, make("caption", {}, words), make("thead", {}, head), make("tbody", {}, ...rows));
  }
  let graph = "";
  function explanations() {
    const of = (one) => `${one.origin} / ${one.dataset}`;
    const points = data.explanations.points.filter((p) => p.model === view);
    const places = distinct(points.map(of));
    $("answer").classList.toggle("plain", !places.length);
    if (!places.length) {
      const where = distinct(data.explanations.points.map((p) => say(p.model))).join(", ");
      $("explanations").replaceChildren(make("p", { class: "small" }, `Whether stable explanations are also right was not recorded ` +
        `for ${say(view)}${where ? `, but for ${where}` : " in this run; fgai-bench run --suite stress measures it"}.`));
      return;
    }
    const form = make("form");
    const pick = picker(form, "explained-place", "suite / graph", places, () => { graph = pick.value; explanations(); $("explained-place")?.focus(); }, false);
    if (places.includes(graph)) pick.value = graph;
    const here = points.filter((p) => of(p) === pick.value);
    const nulls = data.explanations.nulls.filter((n) => n.model === view && of(n) === pick.value);
    $("explanations").replaceChildren(places.length > 1 ? form : "", stability(here, nulls));
  }
  function stability(points, nulls) {
    const [w, h] = phone.matches ? [370, 280] : [580, 330];
    const ends = (p, k) => [p[k].mean - (p[k].std ?? 0), p[k].mean + (p[k].std ?? 0)];
    const xs = span([...points.flatMap((p) => ends(p, "stability")), ...nulls.flatMap((n) => n.stability ?? [])], 0.05);
    const ys = span([...points.flatMap((p) => ends(p, "correctness")), ...nulls.map((n) => n.correctness)], 0.06);
    const first = points[0];
    const measure = data.explanations.measures[first.measure];
    const numbers = points.map((p) => `${say(p.defense)} ${say(p.explainer)}: stable ${p.stability.mean.toFixed(3)}, right ${p.correctness.mean.toFixed(3)}` +
      (p.proven === null ? "" : `, provably stable at ${(100 * p.proven).toFixed(0)} % of the test nodes`));
    const { svg, X, Y, left, right } = frame(w, h, xs, ys, "stable: share of top edges that stay, where predictions stay", `right: ${measure}`, numbers.join("; "));
    let last = Infinity;
    for (const n of [...nulls].sort((a, b) => b.correctness - a.correctness).reverse()) {
      const at = Y(n.correctness);
      const aside = n.stability !== null && X(n.stability) > (left + right) / 2; // the name stands away from the ring
      last = Math.min(at - 3, last - 11);
      svg.append(draw("line", { x1: left, x2: right, y1: at, y2: at, stroke: "var(--soft)", "stroke-dasharray": "4 3" }),
        draw("text", { class: "level", x: aside ? left + 3 : right, y: last, "text-anchor": aside ? "start" : "end" }, `null: ${n.name}`));
      if (n.stability !== null) svg.append(draw("circle", { cx: X(n.stability), cy: at, r: 3.5, fill: "var(--back)", stroke: "var(--soft)" }));
    }
    const explainers = distinct(points.map((p) => p.explainer));
    const shape = (name) => shapes[explainers.indexOf(name) % shapes.length];
    points.forEach((p, i) => {
      const [x, y] = [X(p.stability.mean), Y(p.correctness.mean)];
      const [a, b] = ends(p, "stability");
      const [c, d] = ends(p, "correctness");
      const thin = { stroke: hue(p.defense), "stroke-opacity": 0.6 };
      const mark = draw("path", { d: shape(p.explainer)(5), transform: `translate(${x} ${y})`, fill: hue(p.defense), stroke: "var(--back)", class: "explained" });
      explain(mark, numbers[i]);
      svg.append(draw("line", { x1: X(a), x2: X(b), y1: y, y2: y, ...thin }), draw("line", { x1: x, x2: x, y1: Y(c), y2: Y(d), ...thin }), mark);
    });
    const dot = (name, color) => draw("path", { d: shape(name)(4.5), transform: "translate(11 6)", fill: color });
    const legend = make("div", { class: "legend small" },
      ...distinct(points.map((p) => p.defense)).map((d) => key(say(d), draw("rect", { x: 5, y: 1, width: 12, height: 10, fill: hue(d) }))),
      ...explainers.map((e) => key(say(e), dot(e, "var(--soft)"))), key("null: knows nothing of the trained model; ring: its stability", stroke("var(--soft)", { "stroke-dasharray": "4 3" })));
    return make("figure", {}, make("figcaption", {}, `Stability against correctness of explanations: ${say(view)} on ${say(first.dataset)} ` +
      `under ${under(first.attack)}; means, bars are standard deviations over seeds. What is below a line explains less than that null.`), svg, legend);
  }

  // The table of all rows; what it shows is written into the address.
  const always = ["dataset", "model", "defense", "attack"];
  const suites = distinct(data.rows.map((r) => r.suite));
  const mixed = suites.some((suite) => distinct(data.rows.filter((r) => r.suite === suite).map((r) => r.task)).length > 1);
  // A run of one suite needs no column to say so, and a suite of one task neither.
  const names = [...(suites.length > 1 ? ["suite"] : []), ...(mixed ? ["task"] : []), ...always];
  const filters = new Map(names.map((name) => [name, picker($("filters"), `filter-${name}`, name, distinct(data.rows.map((r) => r[name])), changed)]));
  const [score, ...rest] = data.columns;
  const columns = [{ key: "rank", title: "rank", better: "lower" }, score, { key: "interval", title: "95 % interval" }, ...rest];
  let sorted = { key: "", down: false };

  function set(select, value) {
    if (select && [...select.options].some((option) => option.value === value)) select.value = value;
  }
  function restore() {
    const state = new URLSearchParams(location.hash.slice(1));
    if (![...state.keys()].length) { choose(data.models[0] ?? ""); return; }
    if (data.models.includes(state.get("view"))) view = state.get("view");
    for (const [name, select] of filters) { select.value = ""; set(select, state.get(name) ?? ""); }
    const by = state.get("sort") ?? "";
    const wanted = by.replace(/^-/, "");
    sorted = [...names, ...columns.map((c) => c.key)].includes(wanted) ? { key: wanted, down: by.startsWith("-") } : { key: "", down: false };
  }
  function changed() {
    const state = new URLSearchParams({ view });
    for (const [name, select] of filters) if (select.value) state.set(name, select.value);
    if (sorted.key) state.set("sort", (sorted.down ? "-" : "") + sorted.key);
    history.replaceState(null, "", `#${state}`);
    answer();
    fill();
  }
  function value(row, by) {
    if (names.includes(by)) return row[by];
    return by === "rank" ? row.cells.score.rank ?? null : row.cells[by].mean;
  }
  function order(a, b) {
    const [x, y] = [value(a, sorted.key), value(b, sorted.key)];
    // What has no value comes last, whichever way one sorts.
    if (x === null || y === null) return (x === null) - (y === null);
    const by = typeof x === "string" ? x.localeCompare(y) : x - y;
    return sorted.down ? -by : by;
  }
  function sortBy(by) {
    const first = columns.find((c) => c.key === by)?.better === "higher";
    sorted = { key: by, down: sorted.key === by ? !sorted.down : first };
    changed();
  }
  const headRow = make("tr");
  for (const { key: by, title, better } of [...names.map((name) => ({ key: name, title: name })), ...columns]) {
    const arrow = by !== "rank" && better === "higher" ? " ↑" : by !== "rank" && better === "lower" ? " ↓" : "";
    headRow.append(make("th", { scope: "col", "data-key": by },
      by === "interval" ? title : make("button", { type: "button", "data-key": by, onclick: () => sortBy(by) }, title + arrow)));
  }
  $("board").tHead.append(headRow);
  function fill() {
    const rows = data.rows.filter((row) => [...filters].every(([name, select]) => !select.value || row[name] === select.value));
    if (sorted.key) rows.sort(order);
    $("count").textContent = `${rows.length} of ${data.rows.length} rows; the address keeps this choice`;
    for (const th of headRow.children) {
      const mine = th.dataset.key === sorted.key;
      th.setAttribute("aria-sort", mine ? (sorted.down ? "descending" : "ascending") : "none");
    }
    $("board").tBodies[0].replaceChildren(...rows.map(line));
  }
  function shown(row, cell) {
    const distrust = row.flags.some((f) => f.startsWith("unreliable")) && cell.mean !== null ? "†" : "";
    return cell.text + distrust + (cell.unequal ? "‡" : "") + (cell.beatsNull === false ? "°" : "");
  }
  function line(row) {
    const tr = make("tr");
    // A phone hides most columns: what belongs to a value there stands below it.
    const more = ["model", "attack", "suite", "task"].filter((n) => names.includes(n) && !filters.get(n).value).map((n) => say(row[n])).join(", ");
    for (const name of names) tr.append(make("td", { "data-key": name, ...(name === "defense" ? { "data-more": more } : {}) }, say(row[name])));
    for (const { key: by, title } of columns) {
      if (by === "rank" || by === "interval") {
        tr.append(make("td", { "data-key": by }, by === "rank" ? String(row.cells.score.rank ?? "--") : row.cells.score.interval ?? "--"));
        continue;
      }
      const cell = row.cells[by];
      const sub = cell.null ? `null ${cell.null}` : cell.std && by !== "score" ? `±${cell.std}` : "";
      const entropy = row.cells.attention_entropy_normalised_clean;
      const aside = by === "score" ? cell.interval : by === "g_jsd" && entropy.mean !== null ? `entropy ${entropy.text}` : "";
      tr.append(make("td", { class: cell.bold ? "best" : cell.status ? "gap" : "", "data-key": by, ...(aside ? { "data-more": aside } : {}) },
        make("button", { type: "button", onclick: () => detail(row, by, title) }, shown(row, cell)), make("span", { class: "sub" }, sub)));
    }
    return tr;
  }
  function listing(caption, pairs) {
    if (!pairs.length) return "";
    const body = make("tbody");
    for (const [a, b] of pairs) body.append(make("tr", {}, make("th", { scope: "row" }, a), make("td", {}, String(b))));
    return make("div", {}, make("h3", {}, caption), make("table", {}, body));
  }
  function detail(row, by, title) {
    const cell = row.cells[by];
    const [ledgers, threat, where] = ["ledger", "threat", "where"].map((name) => data.shared[name][row[name]]);
    const values = row.seeds.map((seed, i) => [seed, cell.seeds?.[i] ?? null]).filter(([, value]) => value !== null);
    const spent = ledgers.map(({ seed, spent: ledger }) =>
      [`seed ${seed}`, Object.entries(ledger).map(([n, v]) => `${n} ${v}`).join(", ")]);
    const said = [cell.text, cell.interval ? `95 % interval ${cell.interval}` : "", cell.null ? `uniform attention ${cell.null}` : "",
      cell.rank ? `rank ${cell.rank}` : "not ranked"].filter(Boolean).join("; ");
    $("detail-body").replaceChildren(
      make("h2", { id: "detail-title" }, `${title}: ${say(row.defense)} on ${say(row.model)}, ${say(row.dataset)}, ${row.attack}`),
      make("p", {}, said),
      listing("Seeds", [...values, ...Object.entries(cell.gaps ?? {})]),
      listing("Reasons for distrust", row.flags.map((flag, i) => [i + 1, flag])),
      listing("The row", data.columns.map((c) => [c.title, shown(row, row.cells[c.key]) + (row.cells[c.key].null ? `, uniform ${row.cells[c.key].null}` : "")])),
      listing("Ledger: what the attack spent", spent),
      listing("Budget", Object.entries(threat)),
      listing("Provenance", [["suite", row.suite], ...Object.entries(where),
        ...Object.entries(row.steps).map(([seed, step]) => [`step of seed ${seed}`, step])]),
    );
    $("detail").showModal();
  }

  const verdicts = distinct(data.claims.map((c) => c.verdict));
  $("tally").textContent = `${data.claims.length} claims: ` + verdicts.map((v) => `${data.claims.filter((c) => c.verdict === v).length} ${v}`).join(", ") +
    ". A cell is a graph with a model; x is a ratio.";
  $("claims").replaceChildren(...data.claims.map((claim) => make("li", {},
    make("span", { class: "verdict" }, claim.verdict), ` · ${claim.text}`,
    make("div", { class: "small" }, `${claim.counted}.`),
    claim.cells.length || claim.advice ? make("details", { class: "small" }, make("summary", {}, `${claim.cells.length} cells`),
      ...[...claim.cells, claim.advice].filter(Boolean).map((text) => make("div", {}, text))) : "")));
  $("about").textContent = `fgai-bench, run ${data.run.id}; suites ${data.run.suites.join(", ")}; ${data.run.version}`;
  $("commands").textContent = data.run.commands.join("\n");
  $("look").onclick = () => {
    const root = document.documentElement;
    const dark = (root.dataset.look ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    root.dataset.look = dark ? "light" : "dark";
    $("look").setAttribute("aria-pressed", String(!dark));
  };
  const show = () => { answer(); fill(); };
  addEventListener("hashchange", () => { restore(); show(); });
  phone.addEventListener("change", explanations);
  restore();
  show();
})();
