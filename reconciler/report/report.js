"use strict";
// Searching, filtering, sorting and paging. What is chosen is kept in the address (#findings.q=users&tables.sort=-bytes),
// so that it can be linked to; the bars of the plots are such links. Only the rows of one page are ever in the document.
(() => {
  const ROWS = 50;
  const NAMES = 20;
  const data = JSON.parse(document.getElementById("data").textContent);
  const number = new Intl.NumberFormat("en");

  const element = (tag, className, ...children) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...children);
    return made;
  };
  // What stands in backticks is code.
  const prose = (text) => text.split(/`([^`]+)`/).map((part, at) => (at % 2 ? element("code", "", part) : part));
  const size = (bytes) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let at = 0;
    for (; bytes >= 1023.5 && at < units.length - 1; at += 1) bytes /= 1024;
    const digits = Number.isInteger(bytes) || bytes >= 100 ? 0 : 1;
    return `${bytes.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${units[at]}`;
  };
  const written = (amount) => (amount === null ? "unknown" : number.format(amount));
  const moment = (seconds) => {
    const [date, time] = new Date(seconds * 1000).toISOString().split("T");
    const made = element("time", "", date);
    made.title = `${date} ${time.slice(0, 5)} UTC`;
    return made;
  };

  // ---- entries --------------------------------------------------------------------------------------------------------

  const path = (entries, at) => `${data.namespaces[entries.namespace[at]][1]}/`;
  const name = (entries, at, className = "name") => {
    const [above, own] = [path(entries, at), entries.name[at]];
    const shown = own === null ? [above.slice(0, -1)] : [element("span", "path", above), own];
    return element("bdi", className, ...shown);
  };
  const place = (entries, at) =>
    entries.directory[at] === null ? "" : data.texts[entries.directory[at]] + entries.rest[at];
  const owner = (entries, at) => (entries.owner[at] < 0 ? null : data.owners[entries.owner[at]]);
  const address = (entries, at) => path(entries, at) + (entries.name[at] ?? "");

  const finding = (at) => {
    const all = data.findings;
    const source = all.source[at] === null ? "" : data.texts[all.source[at]];
    const facts = [
      ["What to do", ...prose(data.texts[all.remedy[at]])],
      ...(all.directory[at] === null ? [] : [["Location", element("code", "", place(all, at))]]),
      ["Owner", owner(all, at) ?? "nobody"],
      ["Managed by", all.manager[at] === null ? "no manifest" : data.texts[all.manager[at]]],
      ...(all.firstSeen[at] === null ? [] : [["First seen", data.texts[all.firstSeen[at]]]]),
      ...(all.details[at] ?? []),
    ];
    return details(at, name(all, at), all.reason[at], facts, source);
  };

  const details = (at, named, reason, facts, source = "") => {
    const severity = data.severities[data.findings.severity[at]];
    const list = element("dl");
    for (const [label, ...value] of facts) {
      list.append(element("dt", "", label), element("dd", "", element("bdi", "", ...value)));
    }
    const summary = element(
      "summary", "",
      element("span", "severity", severity), " ",
      element("span", "rule", data.rules[data.findings.rule[at]]), " ",
      named, " ",
      element("span", "why", ...prose(data.texts[reason])), " ",
      element("span", "where", source),
    );
    return element("details", `finding ${severity}`, summary, element("div", "body", list));
  };

  // Equal findings, whose addresses and locations are an ellipsis in the texts that they share.
  const group = (members) => {
    const all = data.findings;
    const [first] = members;
    const [reason, remedy] = data.groups[all.group[first]];
    const named = members.slice(0, NAMES).flatMap((at) => [", ", name(all, at, "")]).slice(1);
    const unnamed = members.length > NAMES ? ` and ${number.format(members.length - NAMES)} more` : "";
    const link = element("a", "", "Show each");
    link.href = `#findings.group=${all.group[first]}`;
    const more = element("i", "", `and ${number.format(members.length - 1)} more`);
    return details(first, element("span", "name", name(all, first, ""), " ", more), reason, [
      ["What to do", ...prose(data.texts[remedy])],
      ["Where", ...named, `${unnamed}. `, link],
    ]);
  };

  const table = (at) => {
    const all = data.tables;
    const location = element("bdi", "location", place(all, at));
    location.title = location.textContent;
    const heading = element("th", "", name(all, at), location);
    heading.scope = "row";
    const own = owner(all, at);
    const pills = data.ruleSets[all.rules[at]].map((rule) => element("span", "rule", data.rules[rule]));
    return element(
      "tr", "",
      heading,
      element("td", "", own === null ? element("i", "", "nobody") : element("bdi", "", own)),
      element("td", "number", written(all.rows[at])),
      ...[all.bytes, all.onDisk, all.reclaimable].map((of) =>
        element("td", "number", of[at] === null ? "unknown" : size(of[at]))),
      element("td", "number", written(all.fragments[at])),
      element("td", "number", written(all.versions[at])),
      element("td", "", all.committed[at] === null ? "" : moment(all.committed[at])),
      element("td", "", ...pills.flatMap((pill) => [pill, " "]).slice(0, -1)),
    );
  };

  // ---- lists ----------------------------------------------------------------------------------------------------------

  // Each filter takes what was chosen, as text, and returns whether it lets an entry through.
  const shared = (entries) => ({
    catalog: (chosen) => (at) => data.namespaces[entries.namespace[at]][0] === Number(chosen),
    namespace: (chosen) => (at) => entries.namespace[at] === Number(chosen),
    owner: (chosen) => (at) => entries.owner[at] === Number(chosen),
  });
  const findings = {
    entries: data.findings,
    row: (members) => (members.length > 1 ? group(members) : finding(members[0])),
    text: (at) => {
      const all = data.findings;
      const source = all.source[at] === null ? "" : data.texts[all.source[at]];
      return [address(all, at), data.texts[all.reason[at]], place(all, at), owner(all, at) ?? "", source].join("\n");
    },
    filters: {
      ...shared(data.findings),
      group: (chosen) => (at) => data.findings.group[at] === Number(chosen),
      rule: (chosen) => (at) => data.findings.rule[at] === Number(chosen),
      severity: (chosen) => {
        const wanted = new Set(chosen.split(","));
        return (at) => wanted.has(data.severities[data.findings.severity[at]]);
      },
    },
    sorts: {},
  };
  const tables = {
    entries: data.tables,
    row: ([at]) => table(at),
    text: (at) => [address(data.tables, at), place(data.tables, at), owner(data.tables, at) ?? ""].join("\n"),
    filters: {
      ...shared(data.tables),
      rule: (chosen) => {
        if (chosen === "none") return (at) => !data.ruleSets[data.tables.rules[at]].length;
        const wanted = data.ruleSets.map((rules) => (chosen === "any" ? rules.length > 0 : rules.includes(Number(chosen))));
        return (at) => wanted[data.tables.rules[at]];
      },
    },
    sorts: {
      name: (at) => address(data.tables, at),
      owner: (at) => owner(data.tables, at),
      rules: (at) => data.ruleSets[data.tables.rules[at]].length,
      ...Object.fromEntries(
        ["rows", "bytes", "onDisk", "reclaimable", "fragments", "versions", "committed"].map((key) => [
          key, (at) => data.tables[key][at],
        ]),
      ),
    },
  };

  // What is not known comes last, in either direction.
  const sorted = (found, keys, descending) => {
    const sign = descending ? -1 : 1;
    return found.sort((one, other) => {
      const a = keys[one];
      const b = keys[other];
      if (a === b) return one - other;
      if (a === null || b === null) return a === null ? 1 : -1;
      return a < b ? -sign : sign;
    });
  };

  const options = {
    catalog: () => data.catalogs.map((label, at) => [label, at]),
    rule: (what) => [
      ...(what === "tables" ? [["Any finding", "any"], ["No finding", "none"]] : []),
      ...data.rules.map((label, at) => [label, at]),
    ],
    owner: () => [["Nobody", -1], ...data.owners.map((label, at) => [label, at]).sort()],
  };

  const listing = (section, { entries, row, text, filters, sorts }) => {
    const within = (selector) => section.querySelector(selector);
    const [toolbar, search, rows, pager] = [".toolbar", "input[type=search]", ".rows", ".pager"].map(within);
    const selects = [...section.querySelectorAll("select")];
    const tiles = [...section.querySelectorAll(".tile")];
    const headers = [...section.querySelectorAll("th[data-sort]")];
    const prefix = `${section.id}.`;
    const total = entries.namespace.length;
    const texts = [];
    const keys = {};
    let chosen = {};
    let found = [];
    let shown = [];
    let page = 0;

    const select = () => {
      const passes = Object.entries(filters).filter(([key]) => chosen[key]).map(([key, filter]) => filter(chosen[key]));
      const terms = (chosen.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
      if (terms.length) {
        passes.push((at) => {
          texts[at] ??= text(at).toLowerCase();
          return terms.every((term) => texts[at].includes(term));
        });
      }
      found = [];
      for (let at = 0; at < total; at += 1) if (passes.every((pass) => pass(at))) found.push(at);
      const order = chosen.sort?.replace("-", "");
      if (Object.hasOwn(sorts, order ?? "")) {
        keys[order] ??= Array.from({ length: total }, (_, at) => sorts[order](at));
        sorted(found, keys[order], chosen.sort.startsWith("-"));
      }
      // Equal entries are one row, unless they are what is looked at.
      const rowOf = entries.group && !chosen.group ? (at) => entries.group[at] : (at) => at;
      const members = new Map();
      for (const at of found) {
        const equal = members.get(rowOf(at));
        if (equal) equal.push(at);
        else members.set(rowOf(at), [at]);
      }
      shown = [...members.values()];
    };

    const paint = () => {
      const pages = Math.max(1, Math.ceil(shown.length / ROWS));
      page = Math.min(Math.max(page, 0), pages - 1);
      rows.replaceChildren(...shown.slice(page * ROWS, (page + 1) * ROWS).map(row));
      within(".nothing").hidden = found.length > 0;
      within("output").value = `${number.format(found.length)} of ${number.format(total)}`;
      pager.hidden = pages === 1;
      within(".page-number").textContent = `Page ${number.format(page + 1)} of ${number.format(pages)}`;
      for (const button of [within(".first"), within(".previous")]) button.disabled = page === 0;
      for (const button of [within(".next"), within(".last")]) button.disabled = page === pages - 1;
    };

    // The controls say what is chosen.
    const reflect = () => {
      search.value = chosen.q ?? "";
      for (const control of selects) {
        control.value = chosen[control.dataset.filter] ?? "";
        if (control.selectedIndex < 0) control.value = "";
      }
      const severities = (chosen.severity ?? "").split(",");
      for (const tile of tiles) tile.setAttribute("aria-pressed", String(severities.includes(tile.dataset.severity)));
      const namespace = data.namespaces[chosen.namespace];
      within(".within").hidden = !namespace && !chosen.group;
      within(".within").textContent = namespace ? `in ${namespace[1]} ×` : "equal ones ×";
      for (const header of headers) {
        const direction = { [header.dataset.sort]: "ascending", [`-${header.dataset.sort}`]: "descending" }[chosen.sort];
        if (direction) header.setAttribute("aria-sort", direction);
        else header.removeAttribute("aria-sort");
      }
    };

    const show = () => {
      page = 0;
      select();
      reflect();
      paint();
    };

    const choose = (changes) => {
      chosen = { ...chosen, ...changes };
      const parameters = new URLSearchParams(location.hash.slice(1));
      for (const key of [...parameters.keys()]) if (key.startsWith(prefix)) parameters.delete(key);
      for (const [key, value] of Object.entries(chosen)) if (value) parameters.set(prefix + key, value);
      history.replaceState(null, "", `#${parameters}`);
      show();
    };

    // Take what is chosen from the address, and return whether anything is.
    const recall = () => {
      const given = [...new URLSearchParams(location.hash.slice(1))].filter(([key]) => key.startsWith(prefix));
      chosen = Object.fromEntries(given.map(([key, value]) => [key.slice(prefix.length), value]));
      show();
      return given.length > 0;
    };

    const turn = (to) => {
      page = to;
      paint();
      if (section.getBoundingClientRect().top < 0) section.scrollIntoView();
    };

    for (const control of selects) {
      const key = control.dataset.filter;
      control.append(...options[key](section.id).map(([label, value]) => new Option(label, value)));
      control.addEventListener("change", () => choose({ [key]: control.value }));
    }
    for (const tile of tiles) {
      tile.addEventListener("click", () => {
        tile.setAttribute("aria-pressed", String(tile.getAttribute("aria-pressed") !== "true"));
        const pressed = tiles.filter((each) => each.getAttribute("aria-pressed") === "true");
        choose({ severity: pressed.map((each) => each.dataset.severity).join(",") });
      });
    }
    for (const header of headers) {
      const key = header.dataset.sort;
      const button = element("button", "", ...header.childNodes);
      button.type = "button";
      header.append(button);
      // Numbers are first asked for from the largest down; a third time gives the order of the report back.
      const [first, second] = key === "name" || key === "owner" ? [key, `-${key}`] : [`-${key}`, key];
      button.addEventListener("click", () => choose({ sort: { [first]: second, [second]: "" }[chosen.sort] ?? first }));
    }
    let waiting = 0;
    search.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => choose({ q: search.value }), 80);
    });
    const reset = () => choose(Object.fromEntries(Object.keys(chosen).map((key) => [key, ""])));
    search.addEventListener("keydown", (event) => {
      if (event.key === "Escape") reset();
    });
    toolbar.addEventListener("submit", (event) => event.preventDefault());
    within(".within").addEventListener("click", () => choose({ namespace: "", group: "" }));
    within(".reset").addEventListener("click", reset);
    within(".first").addEventListener("click", () => turn(0));
    within(".previous").addEventListener("click", () => turn(page - 1));
    within(".next").addEventListener("click", () => turn(page + 1));
    within(".last").addEventListener("click", () => turn(Infinity));
    toolbar.hidden = false;
    within(".without-script")?.remove();
    return { section, search, recall };
  };

  const listings = [];
  for (const [id, of] of Object.entries({ findings, tables })) {
    const section = document.getElementById(id);
    if (section) listings.push(listing(section, of));
  }
  const recall = () => listings.filter((each) => each.recall())[0]?.section.scrollIntoView();
  addEventListener("hashchange", recall);
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input, select, textarea")) {
      event.preventDefault();
      listings[0]?.search.focus();
    }
  });
  recall();
})();
