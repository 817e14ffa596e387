// The first page's catalogue of three items: what a model serves whose scores minimise the expected sampled loss. The
// mean over all draws of m negatives is a finite sum, its minimum is found by Newton's method: nothing is simulated.
(() => {
  "use strict";
  const LEAST = 1e-12;  // nats that rounding leaves of a divergence of 0

  /** All draws of m negatives: how often each item comes, and the probability. */
  const draws = (q, m) => {
    const logFactorial = [0];
    for (let n = 1; n <= m; n += 1) logFactorial.push(logFactorial[n - 1] + Math.log(n));
    const found = [];
    for (let i = 0; i <= m; i += 1) {
      for (let j = 0; i + j <= m; j += 1) {
        const counts = [i, j, m - i - j];
        const log = counts.reduce((sum, n, item) => sum + n * Math.log(q[item]) - logFactorial[n], logFactorial[m]);
        found.push([counts, Math.exp(log)]);
      }
    }
    return found;
  };

  /** Added to the positive's logit and to each negative's: minus the correction. */
  const corrections = {
    none: () => [[0, 0, 0], [0, 0, 0]],
    importance: (q, m) => [[0, 0, 0], q.map((share) => -Math.log(m * share))],
    relative: (q) => Array(2).fill(q.map((share) => -Math.log(share))),
  };

  /** The expected loss at these scores, its gradient and its Hessian. */
  const expected = (f, P, all, [positive, negative], masked) => {
    let loss = 0;
    const gradient = [0, 0, 0];
    const hessian = [[0, 0, 0], [0, 0, 0], [0, 0, 0]];
    for (let y = 0; y < 3; y += 1) {
      const own = f[y] + positive[y];
      const terms = f.map((score, item) => (masked && item === y ? 0 : Math.exp(score + negative[item] - own)));
      for (const [counts, chance] of all) {
        const parts = terms.map((term, item) => counts[item] * term);
        const total = 1 + parts[0] + parts[1] + parts[2];
        const weight = P[y] * chance;
        const share = parts.map((part, item) => (part + (item === y)) / total);  // the label's with its hits
        loss += weight * Math.log(total);
        for (let i = 0; i < 3; i += 1) {
          gradient[i] += weight * (share[i] - (i === y));
          for (let j = 0; j < 3; j += 1) hessian[i][j] += weight * ((i === j) * share[i] - share[i] * share[j]);
        }
      }
    }
    return { loss, gradient, hessian };
  };

  /** The scores of least expected loss; that of the last item is 0. */
  const minimum = (P, q, m, correction, hits) => {
    const all = draws(q, m);
    const added = corrections[correction](q, m);
    const at = (f) => expected(f, P, all, added, hits === "mask");
    let f = P.map((share) => Math.log(share / P[2]));
    let here = at(f);
    for (let step = 0; step < 50; step += 1) {
      const { gradient: [g, h], hessian: [[a, b], [, d]] } = here;
      const move = [(b * h - d * g) / (a * d - b * b), (b * g - a * h) / (a * d - b * b), 0];
      if (Math.max(...move.map(Math.abs)) < 1e-12) break;
      for (let length = 1; length > 1e-9; length /= 2) {
        const next = f.map((score, item) => score + length * move[item]);
        const there = at(next);
        if (there.loss <= here.loss || length < 1e-8) { [f, here] = [next, there]; break; }
      }
    }
    return f;
  };

  const softmax = (f) => {
    const terms = f.map((score) => Math.exp(score - Math.max(...f)));
    const sum = terms.reduce((a, b) => a + b);
    return terms.map((term) => term / sum);
  };

  const served = (...setting) => softmax(minimum(...setting));
  const divergence = (P, S) => P.reduce((sum, share, item) => sum + share * Math.log(share / S[item]), 0);

  const start = (figure) => {
    const items = [...figure.querySelectorAll("tbody th")].map((cell) => cell.textContent);
    const read = (name) => [...figure.querySelectorAll(`[name=${name}]`)];
    const shares = (name) => {
      const values = read(name).map((field) => Number(field.value));
      const sum = values.reduce((a, b) => a + b);
      return values.map((value) => value / sum);
    };
    const show = (field, text) => {
      field.setAttribute("aria-valuetext", text);
      field.parentElement.querySelector("output").textContent = text;
    };
    const percent = (share) => `${(100 * share).toFixed(0)}\u00a0%`;
    const update = () => {
      const [P, q] = ["P", "q"].map(shares);
      const [power, correction, hits] = ["m", "correction", "hits"].map((name) => read(name)[0].value);
      const m = 2 ** power;
      const S = served(P, q, m, correction, hits);
      for (const [name, values] of [["P", P], ["q", q]]) {
        read(name).forEach((field, item) => {
          show(field, percent(values[item]));
        });
      }
      show(read("m")[0], m);
      figure.querySelectorAll(".catalogue-bars").forEach((bars, item) => {
        [P, S].forEach((values, row) => bars.children[row].style.setProperty("--share", values[item]));
        bars.nextElementSibling.textContent = percent(S[item]);
      });
      const nats = divergence(P, S);
      const ratios = S.map((share, item) => share / P[item]);
      const most = ratios.indexOf(Math.max(...ratios));
      figure.querySelector("[aria-live]").textContent = nats < LEAST
        ? "The model serves exactly what the query wants: 0 nats."
        : `The model serves ${items.map((item, i) => `${item} ${percent(S[i])}`).join(", ")}: ${items[most]} `
          + `${ratios[most].toFixed(2)} times as often as the query wants it, ${nats.toPrecision(2)} nats from P.`;
    };
    figure.addEventListener("input", update);
    update();
  };

  window.sumexpCatalogue = { served };
  document.querySelectorAll("#catalogue").forEach(start);
})();
