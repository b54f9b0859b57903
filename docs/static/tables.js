// Label the cells of tables with several columns, for the layout on phones (site.css).
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("article table.docutils")) {
    const labels = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    if (labels.length < 3) continue;
    table.classList.add("hitl-stacked");
    for (const row of table.tBodies[0].rows) {
      [...row.cells].forEach((cell, index) => {
        cell.dataset.label = labels[index] ? `${labels[index]}:` : "";
        cell.classList.toggle("hitl-blank", !cell.textContent.trim());
      });
    }
  }
});
