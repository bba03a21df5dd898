(() => {
  "use strict";
  const { figures, templates } = JSON.parse(document.getElementById("charts").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // Plotly offers to upload the chart by default; a report keeps its data to itself.
  const config = {
    responsive: true,
    displaylogo: false,
    showSendToCloud: false,
    plotlyServerURL: "",
    modeBarButtonsToRemove: ["select2d", "lasso2d"],
  };
  const elements = [...document.querySelectorAll(".chart")];
  const drawn = new Set();

  function draw(element) {
    const { data, layout } = figures[element.id];
    // The heading beside the chart says it already.
    const { title, ...rest } = layout;
    const margin = { ...layout.margin, t: rest.xaxis2 && rest.xaxis2.matches ? 60 : 30 };
    const template = templates[dark.matches ? "dark" : "light"];
    const colors = { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)" };
    drawn.add(element);
    return Plotly.react(element, data, { ...rest, margin, ...colors, template }, config);
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
    { rootMargin: "400px" },
  );
  elements.forEach((element) => watcher.observe(element));
  dark.addEventListener("change", () => drawn.forEach(draw));
  addEventListener("beforeprint", () => {
    elements.filter((element) => !drawn.has(element)).forEach(draw);
  });
})();
