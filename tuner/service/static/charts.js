// Draws a study's charts from their JSON. Everything stored reaches the page as text.
(() => {
  "use strict";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // Plotly offers to upload the chart by default; results stay here.
  const config = {
    responsive: true,
    displaylogo: false,
    showSendToCloud: false,
    plotlyServerURL: "",
    modeBarButtonsToRemove: ["select2d", "lasso2d"],
  };
  // What most readers want; the others open on demand.
  const shownAtOnce = ["chart-sweep", "chart-slowdown"];
  const figures = new Map();
  let templates = null;

  function make(name, properties = {}, children = []) {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  }

  function draw(element) {
    const { data, layout } = figures.get(element);
    // The caption says the title already.
    const { title, ...rest } = layout;
    const margin = { ...layout.margin, t: rest.xaxis2 && rest.xaxis2.matches ? 60 : 30 };
    const clear = "rgba(0,0,0,0)";
    const template = templates[dark.matches ? "dark" : "light"];
    element.dataset.drawn = "true";
    return Plotly.react(
      element,
      data,
      { ...rest, margin, paper_bgcolor: clear, plot_bgcolor: clear, template },
      config,
    );
  }

  // Drawing is slow, and most readers look at a few charts only.
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (isIntersecting) {
          watcher.unobserve(target);
          draw(target);
        }
      }
    },
    { rootMargin: "300px" },
  );

  function chart(group, { title, caption, width_px, height_px, figure }) {
    const plot = make("div", { className: "plot" });
    plot.style.height = `${height_px}px`;
    figures.set(plot, figure);
    watcher.observe(plot);
    const words = make("figcaption", {}, [make("strong", { textContent: title }), ` ${caption}`]);
    const frame = make("div", { className: "wide", tabIndex: 0 }, [plot]);
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", `${group.title}: ${title}`);
    const outer = make("figure", { className: "chart" }, [words, frame]);
    outer.style.setProperty("--width", `${width_px}px`);
    return outer;
  }

  function group(each) {
    const content = [
      make("p", { className: "note", textContent: each.note }),
      make("div", { className: "charts" }, each.charts.map((one) => chart(each, one))),
    ];
    if (shownAtOnce.includes(each.name)) {
      return make("section", { id: each.name }, [make("h3", { textContent: each.title }), ...content]);
    }
    const summary = make("summary", { textContent: `${each.title} (${each.charts.length})` });
    return make("details", { id: each.name }, [summary, ...content]);
  }

  function ranked({ name }) {
    const place = shownAtOnce.indexOf(name);
    return place < 0 ? shownAtOnce.length : place;
  }

  async function show(section) {
    const note = section.querySelector("[data-charts-note]");
    note.textContent = "Loading the charts.";
    try {
      const answer = await fetch(section.dataset.figures, { headers: { Accept: "application/json" } });
      if (!answer.ok) {
        throw new Error(`HTTP ${answer.status}`);
      }
      const found = await answer.json();
      templates = found.templates;
      const groups = [...found.groups].sort((one, other) => ranked(one) - ranked(other));
      note.textContent = groups.length ? "" : "Nothing to draw.";
      section.append(...groups.map(group));
      section.dataset.shown = "true";
    } catch (error) {
      note.textContent = `The charts could not be loaded (${error.message}).`;
    }
  }

  function showNew() {
    document.querySelectorAll("[data-figures]:not([data-asked])").forEach((section) => {
      section.dataset.asked = "true";
      show(section);
    });
  }

  function redraw() {
    for (const plot of figures.keys()) {
      if (!plot.isConnected) {
        Plotly.purge(plot);
        figures.delete(plot);
      } else if (plot.dataset.drawn) {
        draw(plot);
      }
    }
  }

  dark.addEventListener("change", redraw);
  // At the end of a run the results come in anew.
  document.addEventListener("htmx:load", showNew);
  showNew();
})();
