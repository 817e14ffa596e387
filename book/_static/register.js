// The register page: filters for the entries. Does nothing on other pages.
(() => {
  "use strict";

  /** Build an element with attributes and children. */
  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };

  /** The words of an entry: its formulas are pictures once it has been open. */
  const words = (entry) => {
    const copy = entry.cloneNode(true);
    copy.querySelectorAll(".math").forEach((formula) => formula.remove());
    return copy.textContent.toLowerCase();
  };
  const FIELDS = ["paper", "chapter", "verdict", "evidence", "weight", "kind"];
  const OPENED = 10; // that many results of a search are shown open
  const QUERY = "#/?"; // then the filters, as in register.html#/?paper=bias&verdict=refuted

  const addFilters = (place) => {
    const entries = [...document.querySelectorAll(".register-claim")];
    const texts = new Map();
    const search = make("input", { type: "search", placeholder: "word, id or place" });
    const select = (field) => {
      const values = [...new Set(entries.map((entry) => entry.dataset[field]))];
      return make("select", { "data-field": field }, make("option", { value: "" }, "all"),
        ...values.map((value) => make("option", { value }, value)));
    };
    const selects = FIELDS.map(select);
    const clear = make("button", { type: "button" }, "Show all");
    const count = make("output", { "aria-live": "polite" });

    const apply = () => {
      const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const shown = entries.filter((entry) => {
        if (wanted.length && !texts.has(entry)) texts.set(entry, words(entry));
        entry.hidden = !(selects.every((s) => !s.value || entry.dataset[s.dataset.field] === s.value)
          && wanted.every((word) => texts.get(entry).includes(word)));
        return !entry.hidden;
      });
      if (wanted.length && shown.length <= OPENED) for (const entry of shown) entry.open = true;
      for (const list of document.querySelectorAll(".register-claims")) {
        list.closest("section").hidden = !list.querySelector(".register-claim:not([hidden])");
      }
      count.textContent = `${shown.length} of ${entries.length} claims`;
    };
    /** The address keeps the filters, so that what is shown can be linked to. */
    const note = () => {
      const chosen = new URLSearchParams();
      for (const s of selects) if (s.value) chosen.set(s.dataset.field, s.value);
      if (search.value) chosen.set("search", search.value);
      history.replaceState(null, "", chosen.size ? `${QUERY}${chosen}` : "#");
    };
    const set = (chosen) => {
      search.value = chosen.get("search") ?? "";
      for (const s of selects) s.value = chosen.get(s.dataset.field) ?? "";
      for (const s of selects) if (s.selectedIndex < 0) s.value = ""; // no such value: as if it were not asked for
      apply();
    };

    for (const field of [search, ...selects]) field.addEventListener("input", () => { apply(); note(); });
    clear.addEventListener("click", () => { set(new URLSearchParams()); note(); search.focus(); });
    // A number in the table of counts shows the claims it counts.
    for (const link of document.querySelectorAll(".register-counts a[data-verdict]")) {
      link.hash = QUERY.slice(1) + new URLSearchParams({ ...link.dataset });
    }
    // What an address names is shown: filters, or an entry that must be neither hidden nor folded.
    const follow = () => {
      if (location.hash.startsWith(QUERY)) {
        set(new URLSearchParams(location.hash.slice(QUERY.length)));
        place.closest("section").scrollIntoView();
        return;
      }
      const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
      if (!target) return;
      if (target.closest("[hidden]")) set(new URLSearchParams());
      const details = target.closest("details");
      if (details) details.open = true;
      if (target.matches(".register-claim > *")) details.scrollIntoView({ block: "center" });
    };
    addEventListener("hashchange", follow);
    addEventListener("beforeprint", () => entries.forEach((entry) => { entry.open = true; }));

    place.className = "register-filters";
    place.setAttribute("role", "search");
    place.setAttribute("aria-label", "Filter the claims");
    place.append(
      make("label", {}, "Search", search),
      ...selects.map((s) => make("label", {}, s.dataset.field[0].toUpperCase() + s.dataset.field.slice(1), s)),
      clear, count,
    );
    apply();
    follow();
  };

  const start = () => {
    const place = document.getElementById("register-filters");
    if (!place) return;
    addFilters(place);
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
