"use strict";
// The browser of groups. Everything that a model wrote enters the page as text, never as markup.
(() => {
  const groups = JSON.parse(document.getElementById("groups").textContent);
  const select = document.getElementById("group-select");
  const view = document.getElementById("group-view");
  if (!groups.length) return;

  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const hue = (k) => `hsl(${(k * 137.5 + 205) % 360} 62% var(--light))`;
  const letter = (k) => (k < 26 ? String.fromCharCode(65 + k) : `${k + 1}`);
  const percent = (x) => `${Math.round(100 * x)} %`;
  const signed = (x) => (x > 0 ? "+" : "") + x.toFixed(3);

  const chip = (row) => {
    const known = row.solution !== null;
    const mark = make("span", "chip", known ? letter(row.solution) : row.correct ? "✓" : row.correct === false ? "✗" : "?");
    mark.style.color = known ? "var(--card)" : "var(--soft)";
    mark.style.background = known ? hue(row.solution) : "var(--mark)";
    mark.title = known ? "solution " + letter(row.solution) : row.correct ? "correct" : "not correct";
    return mark;
  };

  const shares = (arm) => {
    const bar = make("div", "shares");
    const parts = arm.shares.map(([k, n]) => `${letter(k)} ${percent(n / arm.n)}`);
    bar.setAttribute("role", "img");
    bar.setAttribute("aria-label", `Shares of solutions: ${parts.join(", ") || "none"}; the rest is not correct`);
    for (const [k, n] of arm.shares) {
      const part = make("i");
      part.style.width = `${(100 * n) / arm.n}%`;
      part.style.background = hue(k);
      part.title = `${letter(k)}: ${n} of ${arm.n}`;
      bar.append(part);
    }
    return bar;
  };

  const answer = (row) => {
    const item = make("li");
    const meta = [row.count > 1 ? `${row.count} times` : "once", row.correct ? "correct" : row.correct === false ? "wrong" : "not judged"];
    if (row.reward !== null) meta.push(`reward ${+row.reward.toFixed(3)}`);
    if (row.advantage !== null) meta.push(`advantage ${signed(row.advantage)}`);
    if (row.status !== "complete") meta.push(row.status);
    item.append(chip(row), make("div", "text", row.text || "(empty)"), make("div", "meta", meta.join(" · ")));
    return item;
  };

  const column = (arm, known) => {
    const card = make("div", "card");
    const of = known ? ` of ${known}` : "";
    card.append(make("h3", "", arm.name));
    card.append(make("div", "small soft", `${arm.correct} of ${arm.n} correct · ${arm.shares.length}${of} solutions`));
    const list = make("ul", "rows");
    arm.rows.forEach((row) => list.append(answer(row)));
    card.append(shares(arm), list);
    list.tabIndex = 0;
    list.setAttribute("aria-label", `Answers of ${arm.name}`);
    if (arm.more) card.append(make("p", "small soft", `and ${arm.more} more different answers`));
    return card;
  };

  const show = (index) => {
    const group = groups[index];
    select.value = index;
    const columns = make("div", "grid3");
    group.arms.forEach((arm) => columns.append(column(arm, group.known)));
    const key = make("p", "small soft", group.solutions.map((name, k) => `${letter(k)} = ${name}`).slice(0, 40).join("    "));
    key.style.whiteSpace = "pre-wrap";
    key.style.maxWidth = "none";
    view.replaceChildren(make("div", "prompt", group.prompt), columns, key);
    view.dataset.group = index;
  };

  const sections = {};
  groups.forEach((group, index) => {
    const kind = group.kind === "evaluation" ? "Evaluation" : "Training";
    sections[kind] ??= select.appendChild(Object.assign(document.createElement("optgroup"), { label: kind }));
    const name = kind === "Training" ? `${group.kind}, ${group.arms[0].name}: ` : "";
    const option = make("option", "", `${index}: ${name}${group.prompt.slice(0, 70)}`);
    option.value = index;
    sections[kind].append(option);
  });
  const fromHash = () => {
    const match = /^#group=(\d+)$/.exec(location.hash);
    return match ? Math.min(+match[1], groups.length - 1) : 0;
  };
  const go = (index) => { location.hash = `group=${(index + groups.length) % groups.length}`; };
  select.addEventListener("change", () => go(+select.value));
  document.getElementById("group-back").addEventListener("click", () => go(+select.value - 1));
  document.getElementById("group-next").addEventListener("click", () => go(+select.value + 1));
  window.addEventListener("hashchange", () => { if (location.hash.startsWith("#group=")) show(fromHash()); });
  show(fromHash());
  if (location.hash.startsWith("#group=")) document.getElementById("browse").scrollIntoView();
})();
