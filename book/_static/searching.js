// The page for searching: which pages are listed first, and under each the section that has most of the words.
document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return;  // not the page for searching
  const DROPPED = "script, style, svg, nav, .headerlink, .math, mjx-container, details.hide, .claim-cards, .page-foot, "
    + ".toctree-wrapper";
  const IDLE = new Set(("about an any can could did do does from get give has have how many me much must my need one our "
    + "should so some than them tell use using very we what when where which who why would you your").split(" "));
  const CONTEXT = 90;  // letters before the first word found
  const LENGTH = 240;

  // Words of one letter and idle words are not looked for, unless nothing else is asked for.
  const parse = Search._parseQuery;
  Search._parseQuery = (query) => {
    const telling = splitQuery(query).filter((word) => word.length > 1 && !IDLE.has(word.toLowerCase()));
    return [query, ...parse(telling.length ? telling.join(" ") : query).slice(1)];
  };

  /** How often a page has each word (BM25), its best heading, and the best name that leads to it (sumexp_files.py). */
  Search._performSearch = (query, searchTerms, excluded) => {
    const { counts, docnames, filenames, titles, alltitles, indexentries } = Search._index;
    document.getElementById("search-progress")?.replaceChildren();
    const stemmer = new Stemmer();
    const stems = (text) => splitQuery(text.replace(/<[^>]*>/g, "").toLowerCase()).map((word) => stemmer.stemWord(word));
    const held = Object.keys(counts);
    const lengths = docnames.map(() => 0);
    for (const list of Object.values(counts)) for (let i = 0; i < list.length; i += 2) lengths[list[i]] += list[i + 1];
    const average = lengths.reduce((a, b) => a + b) / lengths.length;
    const weights = new Map();
    const scores = docnames.map(() => 0);
    const anchors = docnames.map(() => "");
    for (const word of searchTerms) {
      const alike = word in counts ? [word] : held.filter((one) => word.length > 2 && one.startsWith(word));
      const found = new Map();
      for (const list of alike.map((one) => counts[one])) {
        for (let i = 0; i < list.length; i += 2) found.set(list[i], (found.get(list[i]) ?? 0) + list[i + 1]);
      }
      weights.set(word, Math.log(1 + docnames.length / (1 + found.size)));
      for (const [page, number] of found) {
        scores[page] += weights.get(word) * 2 * number / (number + 1.2 * (0.25 + 0.75 * lengths[page] / average));
      }
    }
    const matched = (text) => {
      const all = stems(text);
      const both = [...new Set(all)].filter((word) => searchTerms.has(word));
      return both.reduce((sum, word) => sum + weights.get(word), 0) * both.length / (all.length + searchTerms.size);
    };
    const best = new Map();
    for (const [title, places] of Object.entries(alltitles)) {
      const score = matched(title);
      for (const [page, id] of score ? places : []) {
        if (score <= (best.get(page) ?? 0)) continue;
        best.set(page, score);
        anchors[page] = id === null ? "" : `#${id}`;
      }
    }
    best.forEach((score, page) => { scores[page] += 4 * score; });
    const named = new Map();
    for (const [entry, places] of Object.entries(indexentries)) {
      const score = matched(entry);
      for (const [page, , isMain] of score ? places : []) {
        if (isMain) named.set(page, Math.max(score, named.get(page) ?? 0));
        if (isMain && entry === query.toLowerCase().trim()) named.set(page, 100);
      }
    }
    named.forEach((score, page) => { scores[page] += 6 * score; if (score >= 100) anchors[page] = ""; });
    for (const list of [...excluded].map((word) => counts[word] ?? [])) {
      for (let i = 0; i < list.length; i += 2) scores[list[i]] = 0;
    }
    const pages = docnames.flatMap((name, page) => {
      const score = scores[page] * (name.startsWith("book/api/") ? 0.5 : 1);
      return score ? [[name, titles[page], anchors[page], null, score, filenames[page]]] : [];
    });
    // Who types a name of code, in_batch or StreamingLogQ, looks for it first; who types words wants pages.
    const code = query.trim();
    const isCode = /^\S*([._]|[a-z][A-Z])\S*$/.test(code);
    const objects = Search.performObjectSearch(code.toLowerCase(), new Set([code.toLowerCase()])).map((one) => {
      const exact = `.${one[1]}`.endsWith(`.${code}`);
      return [...one.slice(0, 4), (isCode && exact ? 1000 : 0) + one[4] / 100, one[5]];
    });
    return [...objects, ...pages].sort((a, b) => a[4] - b[4] || (a[1] < b[1] ? 1 : -1));
  };

  const own = (section) => {
    const copy = section.cloneNode(true);
    copy.querySelectorAll("section").forEach((inner) => inner.remove());
    const heading = copy.querySelector("h1, h2, h3, h4");
    const title = heading ? heading.textContent.trim() : "";
    if (heading) heading.remove();
    return { id: section.id, title, text: copy.textContent.replace(/\s+/g, " ").trim() };
  };

  Search.makeSearchSummary = (html, keywords, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const main = page.querySelector("article") || page.querySelector('[role="main"]');
    if (!main) return null;
    main.querySelectorAll(DROPPED).forEach((part) => part.remove());
    const asked = [...keywords].map((word) => word.toLowerCase());
    const found = (text) => asked.filter((word) => text.toLowerCase().includes(word)).length;
    const sections = [...main.querySelectorAll("section[id]")].map(own);
    const named = sections.find(({ id }) => anchor && `#${id}` === anchor);
    const score = ({ title, text }) => 2 * found(title) + found(text);
    const best = named || sections.reduce((a, b) => (score(b) > score(a) ? b : a), { id: "", title: "", text: "" });
    if (!best.text && !best.title) return null;
    const places = asked.map((word) => best.text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
    const from = Math.max(0, Math.min(...(places.length ? places : [0])) - CONTEXT);
    const start = from ? best.text.indexOf(" ", from) + 1 : 0;
    const cut = best.text.slice(start, start + LENGTH);
    const summary = document.createElement("p");
    summary.className = "context";
    const link = document.createElement("a");
    link.textContent = best.title;
    summary.append(link, `${start ? " … " : " "}${cut}${start + LENGTH < best.text.length ? " …" : ""}`);
    // The list's entry, which knows the page's address, is above once the caller has put the summary there.
    queueMicrotask(() => {
      const entry = summary.closest("li")?.querySelector("a");
      if (entry) link.href = `${entry.getAttribute("href").split("#")[0]}#${best.id}`;
    });
    return summary;
  };
});
