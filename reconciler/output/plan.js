"use strict";
// Searching and filtering. What is chosen is kept in the address (#q=users&show=create,update&catalog=lake), so that a
// filtered page can be linked to.
(() => {
  const byId = (id) => document.getElementById(id);
  document.documentElement.classList.add("scripted");
  document.addEventListener("click", ({ target }) => {
    if (!target.matches(".copy")) return;
    getSelection().selectAllChildren(target.previousElementSibling);
    target.textContent = document.execCommand("copy") ? "Copied" : "Selected"; // also in a frame, which has no clipboard
  });

  const toolbar = document.querySelector(".toolbar");
  if (!toolbar) return;
  toolbar.hidden = false;

  const search = byId("search");
  const catalog = byId("catalog");
  const tiles = [...toolbar.querySelectorAll(".tile")];
  const nothing = document.querySelector(".nothing");
  const entries = [...document.querySelectorAll(".entry")].map((element) => ({
    element,
    group: element.parentElement,
    catalog: element.dataset.catalog,
    sort: element.dataset.sort,
    text: `${element.dataset.catalog}/${element.querySelector(".name").textContent} ${element.textContent}`.toLowerCase(),
  }));
  const groups = [...document.querySelectorAll(".group")];
  const opened = new Map(groups.map((group) => [group, group.open]));
  const number = new Intl.NumberFormat("en");
  let filtered = false;

  const chosen = () => ({
    terms: search.value.toLowerCase().split(/\s+/).filter(Boolean),
    sorts: new Set(tiles.filter((tile) => tile.getAttribute("aria-pressed") === "true").map((tile) => tile.dataset.sort)),
    catalog: catalog ? catalog.value : "",
  });

  const apply = () => {
    const { terms, sorts, catalog: wanted } = chosen();
    const matching = new Set();
    let shown = 0;
    for (const entry of entries) {
      const matches =
        (!wanted || entry.catalog === wanted) &&
        (!sorts.size || sorts.has(entry.sort)) &&
        terms.every((term) => entry.text.includes(term));
      entry.element.hidden = !matches;
      if (matches) {
        shown += 1;
        matching.add(entry.group);
      }
    }
    const filters = Boolean(terms.length || sorts.size || wanted);
    for (const group of groups) {
      group.hidden = !matching.has(group);
      if (filters) group.open = true;
      else if (filtered) group.open = opened.get(group);
    }
    filtered = filters;
    for (const section of document.querySelectorAll(".catalog")) {
      section.hidden = !section.querySelector(".group:not([hidden])");
    }
    nothing.hidden = shown > 0;
    byId("shown").value = `${number.format(shown)} of ${number.format(entries.length)} shown`;
  };

  const remember = () => {
    const parameters = new URLSearchParams();
    const { sorts } = chosen();
    if (search.value) parameters.set("q", search.value);
    if (sorts.size) parameters.set("show", [...sorts].join(","));
    if (catalog && catalog.value) parameters.set("catalog", catalog.value);
    const fragment = parameters.toString();
    history.replaceState(null, "", fragment ? `#${fragment}` : "#");
  };

  const recall = () => {
    const parameters = new URLSearchParams(location.hash.slice(1));
    search.value = parameters.get("q") ?? "";
    const sorts = new Set((parameters.get("show") ?? "").split(","));
    for (const tile of tiles) tile.setAttribute("aria-pressed", String(sorts.has(tile.dataset.sort)));
    if (catalog) {
      catalog.value = parameters.get("catalog") ?? "";
      if (catalog.selectedIndex < 0) catalog.value = "";
    }
    apply();
  };

  const changed = () => {
    remember();
    apply();
  };

  const reset = () => {
    search.value = "";
    if (catalog) catalog.value = "";
    for (const tile of tiles) tile.setAttribute("aria-pressed", "false");
    changed();
  };

  const setOpen = (open) => {
    for (const group of groups) if (!group.hidden) group.open = open || filtered;
    for (const entry of entries) if (!entry.element.hidden) entry.element.open = open;
  };

  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(changed, 80);
  });
  toolbar.addEventListener("submit", (event) => event.preventDefault());
  if (catalog) catalog.addEventListener("change", changed);
  for (const tile of tiles) {
    tile.addEventListener("click", () => {
      tile.setAttribute("aria-pressed", String(tile.getAttribute("aria-pressed") !== "true"));
      changed();
    });
  }
  byId("expand").addEventListener("click", () => setOpen(true));
  byId("collapse").addEventListener("click", () => setOpen(false));
  byId("reset").addEventListener("click", reset);
  addEventListener("hashchange", recall);
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input, select, textarea")) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && event.target === search) {
      reset();
    }
  });
  recall();
})();
