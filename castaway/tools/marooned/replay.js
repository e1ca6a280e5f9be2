"use strict";
// The page of a replay. Every text that came from a game is put in place by textContent, never as markup.
(() => {
  const episode = JSON.parse(document.getElementById("episode").textContent);
  const { head, island, moments, known } = episode;
  const COLOURS = ["#1f5fa8", "#a33b1f", "#2d7d46", "#7a3f9d", "#93700a", "#0d7c86", "#a8326d", "#555555"];
  const SVG = "http://www.w3.org/2000/svg";
  const at = (id) => document.getElementById(id);
  let now = 0;
  let view = "";
  let timer = 0;

  const element = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  };
  const drawn = (tag, attributes, text) => {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const counts = (box) => Object.entries(box).map(([kind, amount]) => `${kind} ${amount}`).join(", ") || "nothing";
  const where = (place) => (place ? `${place[0]} (${place[1]},${place[2]})` : "out of sight");

  // Piles are saved as changes from one moment to the next.
  const pilesOf = (series) => {
    const kept = { moment: -1, piles: new Map() };
    return (number) => {
      if (number < kept.moment) { kept.moment = -1; kept.piles = new Map(); }
      while (kept.moment < number) {
        kept.moment += 1;
        for (const [id, pile] of Object.entries(series[kept.moment].piles)) {
          if (pile === null) kept.piles.delete(id); else kept.piles.set(id, pile);
        }
      }
      return kept.piles;
    };
  };
  const piles = { "": pilesOf(moments) };
  for (const name of Object.keys(known || {})) piles[name] = pilesOf(known[name]);

  // The maps ------------------------------------------------------------------------------------------------------
  const maps = {};
  const levels = Object.entries(island.levels).sort((one, other) => other[1].height - one[1].height);
  for (const [name, level] of levels) {
    const svg = drawn("svg", { viewBox: `0 0 ${level.width} ${level.depth}`, "data-level": name });
    const tiles = new Map();
    for (let y = 0; y < level.depth; y += 1) {
      for (let x = 0; x < level.width; x += 1) {
        svg.append(drawn("rect", { x, y, width: 1, height: 1, class: "tile" }));
        const dark = drawn("rect", { x, y, width: 1, height: 1, class: "dark", visibility: "hidden" });
        tiles.set(`${x},${y}`, dark);
      }
    }
    if (island.camp[0] === name) {
      const [, x, y] = island.camp;
      svg.append(drawn("path", { d: `M${x + 0.1} ${y + 0.9}L${x + 0.5} ${y + 0.15}L${x + 0.9} ${y + 0.9}Z`, class: "camp" }));
    }
    const layers = { piles: drawn("g", {}), dark: drawn("g", {}), sailors: drawn("g", {}) };
    layers.dark.append(...tiles.values());
    svg.append(layers.piles, layers.dark, layers.sailors);
    maps[name] = { svg, tiles, layers, level };
    at("maps").append(element("h2", name), svg);
  }
  const figures = {};
  island.crew.forEach((name, number) => {
    const figure = drawn("g", { class: "sailor", "data-sailor": name });
    figure.append(
      drawn("circle", { cx: 0.5, cy: 0.5, r: 0.32, fill: COLOURS[number % COLOURS.length] }),
      drawn("text", { x: 0.5, y: 0.62 }, name.slice(0, 2)),
      drawn("title", {}, name),
    );
    figures[name] = figure;
  });

  const placeOf = (name) => {
    if (!view) return moments[now].sailors[name].alive ? moments[now].sailors[name].place : null;
    if (name === view) return moments[now].sailors[name].alive ? known[view][now].place : null;
    return known[view][now].mates[name].place;
  };

  const drawMaps = () => {
    for (const { layers, tiles, svg } of Object.values(maps)) {
      layers.piles.replaceChildren();
      const own = view && known[view][now].place;
      const here = own && own[0] === svg.dataset.level;
      for (const [tile, dark] of tiles) {
        const [x, y] = tile.split(",").map(Number);
        const seen = !view || (here && Math.max(Math.abs(x - own[1]), Math.abs(y - own[2])) <= known[view][now].vision);
        dark.setAttribute("visibility", seen ? "hidden" : "visible");
      }
    }
    for (const [id, [level, x, y, amount]] of piles[view](now)) {
      const label = drawn("text", { x: x + 0.5, y: y + 0.4, class: "pile", "data-pile": id }, id[0].toLowerCase());
      label.append(drawn("title", {}, `${id}: ${amount}`));
      maps[level].layers.piles.append(label);
    }
    const crowd = {};
    island.crew.forEach((name) => {
      const place = placeOf(name);
      if (!place) { figures[name].remove(); return; }
      const tile = place.join();
      const shift = 0.14 * (crowd[tile] = (crowd[tile] ?? -1) + 1);
      const layer = maps[place[0]].layers.sailors;
      if (figures[name].parentNode !== layer) layer.append(figures[name]);
      figures[name].setAttribute("transform", `translate(${place[1] + shift - 0.14} ${place[2] - shift + 0.14})`);
      figures[name].dataset.place = tile;
      const shown = (!view || view === name) && moments[now].sailors[name].role === "traitor";
      figures[name].classList.toggle("traitor", shown);
    });
  };

  // Ship, crew, vote ------------------------------------------------------------------------------------------------
  const bar = (share, low) => {
    const outer = element("div", undefined, "bar");
    const inner = element("i", undefined, low ? "low" : "");
    inner.style.width = `${Math.max(0, Math.min(100, share))}%`;
    outer.append(inner);
    return outer;
  };

  const drawState = () => {
    const { ship, store } = moments[now];
    const parts = Object.keys(island.components);
    const total = parts.reduce((sum, part) => sum + (island.components[part] * ship[part]) / 100, 0);
    at("ship").replaceChildren(
      ...[["ship", total], ...parts.map((part) => [part, ship[part]])].map(([name, points]) => {
        const row = element("div", undefined, "part");
        row.dataset.part = name;
        row.append(element("span", name), bar(points), element("span", `${+points.toFixed(1)} %`));
        return row;
      }),
    );
    at("store").textContent = counts(store);
    at("crew").replaceChildren(...island.crew.map(card));
    drawVote();
  };

  const card = (name) => {
    const truth = moments[now].sailors[name];
    const full = !view || view === name;
    const status = truth.ejected ? "ejected" : truth.alive ? "alive" : "dead";
    const made = element("div", undefined, `sailor-card${truth.alive ? "" : " gone"}`);
    made.dataset.sailor = name;
    made.append(element("strong", name), element("span", full ? ` ${truth.role}` : " ?", full ? `role ${truth.role}` : "role"));
    made.append(element("span", `, ${status}, ${truth.alive ? where(placeOf(name)) : "gone"}`));
    if (full) {
      const ill = view ? known[view][now].symptoms : truth.poisoned_on !== null && `poisoned on day ${truth.poisoned_on}`;
      const fed = truth.ate ? "has eaten" : "has not eaten";
      made.append(bar((100 * truth.energy) / island.energy, truth.energy * 4 < island.energy));
      made.append(element("div", `energy ${truth.energy}, ${fed}, carries ${counts(truth.backpack)}${ill ? `, ${ill}` : ""}`));
    } else if (known[view][now].mates[name].symptoms) {
      made.append(element("div", `${known[view][now].mates[name].symptoms} symptoms`));
    }
    return made;
  };

  const drawVote = () => {
    const { vote } = moments[now];
    const lines = [];
    if (!vote) lines.push("No vote is open.");
    else if (view) lines.push(`A vote is open; ${view} ${known[view][now].voted ? "has voted" : "has not voted"}.`);
    else {
      lines.push(`${vote.called_by} called a vote.`);
      for (const [voter, name] of Object.entries(vote.ballots)) lines.push(`${voter} votes for ${name}.`);
    }
    at("vote").replaceChildren(...lines.map((line) => element("div", line)));
  };

  // What was said and done ------------------------------------------------------------------------------------------
  const drawTurn = () => {
    const { said } = moments[now];
    const done = now + 1 < moments.length ? moments[now + 1].did : {};
    const made = island.crew.filter((name) => (!view || view === name) && (said[name] || done[name])).map((name) => {
      const box = element("div", undefined, "action");
      box.dataset.sailor = name;
      box.append(element("strong", name));
      if (said[name]) {
        const { text, valid, penalty, critique, action } = said[name];
        box.append(element("pre", text));
        const price = penalty ? ` Penalty ${penalty}.` : "";
        box.append(element("div", `${valid ? "valid" : "not valid"}.${critique ? ` ${critique}` : ""}${price}`, `verdict ${valid ? "good" : "bad"}`));
        if (!valid) box.append(element("div", `Executed: ${action}`, "executed"));
      } else box.append(element("div", `by script: ${done[name]}`, "executed"));
      return box;
    });
    const note = view && known[view][now].note;
    at("actions").replaceChildren(...(note ? [element("p", `Of the last action: ${note}`)] : []), ...made);
    if (!made.length) at("actions").append(element("p", now + 1 === moments.length ? "The game is over." : "Nothing."));
  };

  const drawPast = () => {
    const before = now ? moments[now - 1].clues : 0;
    at("clues").replaceChildren(...episode.clues.slice(0, moments[now].clues).map((clue, number) => {
      const strength = clue.about ? ` [against ${clue.about}, strength ${clue.strength}]` : "";
      return element("li", `day ${clue.day} turn ${clue.turn}: ${clue.text}${strength}`, number >= before ? "fresh" : "");
    }).reverse());
    const heard = episode.talk.filter(({ moment, speaker, to }) => moment <= now && (!view || !to || [speaker, to].includes(view)));
    at("talk").replaceChildren(...heard.map(({ moment, speaker, to, text }) => {
      const { day, turn } = moments[moment - 1];
      const line = `day ${day} turn ${turn}, ${speaker}${to ? ` to ${to} alone` : ""}: ${text}`;
      return element("li", line, `${moment === now ? "fresh" : ""}${to ? " private" : ""}`);
    }).reverse());
  };

  // Going through it --------------------------------------------------------------------------------------------------
  const draw = () => {
    const { day, turn, phase, winner, ending } = moments[now];
    at("moment").textContent = `Day ${day} of ${island.days}, turn ${turn}, ${phase}` + (winner ? `. The ${winner} won: ${ending}.` : "");
    at("slider").value = now;
    at("day").value = String(day);
    at("view").value = view;
    drawMaps();
    drawState();
    drawTurn();
    drawPast();
  };
  const go = (number) => {
    now = Math.max(0, Math.min(moments.length - 1, number));
    if (now === moments.length - 1) pause();
    draw();
  };
  const pause = () => {
    clearInterval(timer);
    timer = 0;
    at("play").textContent = "Play";
  };
  const play = () => {
    if (now === moments.length - 1) now = 0;
    clearInterval(timer);
    timer = setInterval(() => go(now + 1), Number(at("pace").value));
    at("play").textContent = "Pause";
    draw();
  };
  const toggle = () => (timer ? pause() : play());
  const firstOf = (day) => moments.findIndex((moment) => moment.day === day);
  const jump = (days) => {
    const { day } = moments[now];
    const start = firstOf(day);
    if (days < 0) go(now > start ? start : Math.max(0, moments.findIndex((moment) => moment.day === (moments[start - 1] ?? moments[0]).day)));
    else { const later = moments.findIndex((moment) => moment.day > day); go(later < 0 ? moments.length - 1 : later); }
  };
  const follow = (name) => { if (!name || known) { view = name; draw(); } };

  const keys = {
    " ": toggle,
    ArrowRight: () => go(now + 1),
    ArrowLeft: () => go(now - 1),
    Home: () => go(0),
    End: () => go(moments.length - 1),
    PageUp: () => jump(-1),
    PageDown: () => jump(1),
  };
  ["", ...island.crew].slice(0, 10).forEach((name, number) => { keys[String(number)] = () => follow(name); });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "SELECT" || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  at("first").addEventListener("click", keys.Home);
  at("day-back").addEventListener("click", keys.PageUp);
  at("back").addEventListener("click", keys.ArrowLeft);
  at("play").addEventListener("click", toggle);
  at("next").addEventListener("click", keys.ArrowRight);
  at("day-next").addEventListener("click", keys.PageDown);
  at("last").addEventListener("click", keys.End);
  at("slider").max = moments.length - 1;
  at("slider").addEventListener("input", (event) => go(Number(event.target.value)));
  at("day").addEventListener("change", (event) => go(firstOf(Number(event.target.value))));
  at("view").addEventListener("change", (event) => follow(event.target.value));
  at("pace").addEventListener("change", () => { if (timer) play(); });
  for (const day of new Set(moments.map((moment) => moment.day))) at("day").append(new Option(String(day), String(day)));
  at("view").append(new Option("nobody: the truth", ""));
  if (known) for (const name of island.crew) at("view").append(new Option(name, name));
  else {
    at("warning").hidden = false;
    at("warning").textContent = "This episode was played by other rules than today's: what each sailor knew cannot be shown.";
  }
  at("result").textContent = `Played by the model: ${head.seat}. ${head.success ? "Success" : "Failure"}: ${head.ending}.`;
  draw();
})();
