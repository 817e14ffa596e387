// The register page: filters for the table, and a dependency graph to walk. Does nothing on other pages.
(() => {
  "use strict";

  /** Build an element with attributes and children. */
  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };

  /** The words of a row: its formulas are pictures by the time anyone searches. */
  const words = (row) => {
    const copy = row.cloneNode(true);
    copy.querySelectorAll(".math").forEach((formula) => formula.remove());
    return copy.textContent.toLowerCase();
  };

  const addFilters = (place) => {
    const rows = [...document.querySelectorAll(".register-claims tbody tr")];
    const texts = new Map();
    const search = make("input", { type: "search", placeholder: "word, id or place" });
    const select = (field) => {
      const values = [...new Set(rows.map((row) => row.dataset[field]))];
      return make("select", { "data-field": field }, make("option", { value: "" }, "all"),
        ...values.map((value) => make("option", { value }, value)));
    };
    const selects = ["chapter", "verdict", "kind"].map(select);
    const clear = make("button", { type: "button" }, "Show all");
    const count = make("output", { "aria-live": "polite" });

    const apply = () => {
      const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        if (!texts.has(row)) texts.set(row, words(row));
        const fits = selects.every((s) => !s.value || row.dataset[s.dataset.field] === s.value)
          && wanted.every((word) => texts.get(row).includes(word));
        row.hidden = !fits;
        shown += fits;
      }
      for (const table of document.querySelectorAll(".register-claims")) {
        table.closest("section").hidden = !table.querySelector("tbody tr:not([hidden])");
      }
      count.textContent = `${shown} of ${rows.length} claims`;
    };
    const reset = () => {
      search.value = "";
      for (const s of selects) s.value = "";
      apply();
    };

    search.addEventListener("input", apply);
    for (const s of selects) s.addEventListener("change", apply);
    clear.addEventListener("click", () => { reset(); search.focus(); });
    // A number in the table of counts shows the claims it counts.
    for (const link of document.querySelectorAll(".register-counts a[data-verdict]")) {
      link.addEventListener("click", () => {
        search.value = "";
        for (const s of selects) s.value = link.dataset[s.dataset.field] ?? "";
        apply();
      });
    }
    // A link to a claim must never lead to a hidden row.
    const reveal = () => {
      const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
      if (!target) return;
      if (target.closest("[hidden]")) reset();
      const details = target.closest("details");
      if (details) details.open = true;
      target.scrollIntoView({ block: "center" });
      if (target.matches(".node")) target.focus({ preventScroll: true });
    };
    window.addEventListener("hashchange", reveal);

    place.className = "register-filters";
    place.setAttribute("role", "search");
    place.setAttribute("aria-label", "Filter the claims");
    place.append(
      make("label", {}, "Search", search),
      ...selects.map((s) => make("label", {}, s.dataset.field[0].toUpperCase() + s.dataset.field.slice(1), s)),
      clear, count,
    );
    apply();
    if (location.hash.startsWith("#node-")) reveal();
  };

  /** Every claim that can be reached from `start`, itself included. */
  const reach = (start, next) => {
    const seen = new Set([start]);
    for (const id of seen) for (const other of next.get(id) ?? []) seen.add(other);
    return seen;
  };

  const addWalking = (graph) => {
    const nodes = [...graph.querySelectorAll(".node")];
    const edges = [...graph.querySelectorAll(".edge")];
    const byId = new Map(nodes.map((node) => [node.dataset.id, node]));
    const rests = new Map(nodes.map((node) => [node.dataset.id, []]));
    const used = new Map(nodes.map((node) => [node.dataset.id, []]));
    for (const { dataset: { from, to } } of edges) {
      rests.get(to).push(from);
      used.get(from).push(to);
    }
    const hint = make("p", { class: "hint" },
      "Point at a claim to read it. With the keyboard: Tab to the graph, ↑ to what a claim rests on, ",
      "↓ to what uses it, ← and → along a row, Enter to its entry.");
    const statement = make("div", { class: "register-statement", "aria-live": "polite" }, hint);
    graph.closest("details").append(statement);

    const choose = (node) => {
      const { id } = node.dataset;
      const above = reach(id, rests);
      const below = reach(id, used);
      graph.classList.add("chosen");
      for (const other of nodes) {
        other.classList.toggle("kin", above.has(other.dataset.id) || below.has(other.dataset.id));
        other.classList.toggle("self", other === node);
      }
      for (const edge of edges) {
        const { from, to } = edge.dataset;
        edge.classList.toggle("kin", (above.has(from) && above.has(to)) || (below.has(from) && below.has(to)));
      }
      const row = document.getElementById(`claim-${id}`);
      const badge = row.querySelector(".register-verdict").cloneNode(true);
      const parts = [...row.querySelectorAll(".paper-says, .corrected")].map((part) => part.cloneNode(true));
      statement.replaceChildren(make("p", {}, make("code", {}, id), " ", badge), ...parts);
    };
    const rest = () => {
      const focused = graph.querySelector(".node:focus");
      if (focused) return choose(focused);
      graph.classList.remove("chosen");
    };

    const nearest = (node, others) => others
      .map((other) => [Math.abs(other.dataset.x - node.dataset.x), other])
      .sort(([a], [b]) => a - b)[0]?.[1];
    const step = {
      ArrowUp: (node) => nearest(node, rests.get(node.dataset.id).map((id) => byId.get(id))),
      ArrowDown: (node) => nearest(node, used.get(node.dataset.id).map((id) => byId.get(id))),
      ArrowLeft: (node) => nearest(node, inRow(node).filter((other) => +other.dataset.x < +node.dataset.x)),
      ArrowRight: (node) => nearest(node, inRow(node).filter((other) => +other.dataset.x > +node.dataset.x)),
    };
    const inRow = (node) => nodes.filter((other) => other.dataset.row === node.dataset.row);

    // One stop for Tab in each graph; the arrows move it.
    const stopAt = (node) => nodes.forEach((other) => other.setAttribute("tabindex", other === node ? "0" : "-1"));
    stopAt(nodes[0]);
    for (const node of nodes) {
      node.addEventListener("mouseenter", () => choose(node));
      node.addEventListener("mouseleave", rest);
      node.addEventListener("focus", () => { stopAt(node); choose(node); });
      node.addEventListener("blur", rest);
      node.addEventListener("keydown", (event) => {
        if (!(event.key in step)) return;
        event.preventDefault();
        step[event.key](node)?.focus();
      });
    }
  };

  const start = () => {
    const place = document.getElementById("register-filters");
    if (!place) return;
    document.querySelectorAll(".register-graph").forEach(addWalking);
    addFilters(place);
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
