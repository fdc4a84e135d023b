// A bar beside a panel: dragged, or moved by the arrow keys, it changes the panel's size, which this browser remembers.
const STEP = 20;

// `side` is the panel's length ("width" or "height"), `least` what it keeps, `rest` what it leaves to the others, in pixels.
export function createSplitter(bar, panel, { side, least, rest }) {
  const key = `deskyard.${panel.id}.${side}`;
  const room = () => Math.max(least, panel.parentElement.getBoundingClientRect()[side] - rest);
  const size = () => Math.round(panel.getBoundingClientRect()[side]);

  function say() {
    bar.setAttribute("aria-valuenow", String(size()));
    bar.setAttribute("aria-valuemin", String(least));
    bar.setAttribute("aria-valuemax", String(Math.round(room())));
  }

  function resize(wanted) {
    const taken = Math.round(Math.min(Math.max(wanted, least), room()));
    panel.style[side] = `${taken}px`;
    localStorage.setItem(key, String(taken));
    say();
  }

  function reset() {
    panel.style[side] = "";
    localStorage.removeItem(key);
    say();
  }

  bar.addEventListener("pointerdown", (event) => {
    const place = ({ clientX, clientY }) => (side === "width" ? clientX : clientY);
    const from = place(event) + size();
    bar.setPointerCapture(event.pointerId);
    const drag = (moved) => resize(from - place(moved));
    bar.addEventListener("pointermove", drag);
    bar.addEventListener("lostpointercapture", () => bar.removeEventListener("pointermove", drag), { once: true });
    event.preventDefault();
    bar.focus();
  });
  bar.addEventListener("keydown", (event) => {
    // The panel lies to the right of its bar, or below it.
    const steps = { ArrowLeft: 1, ArrowUp: 1, ArrowRight: -1, ArrowDown: -1 }[event.key];
    if (steps) {
      resize(size() + steps * STEP);
      event.preventDefault();
    }
  });
  bar.addEventListener("dblclick", reset);
  const kept = Number(localStorage.getItem(key));
  if (kept) {
    panel.style[side] = `${kept}px`;
  }
  // Shown and hidden with its panel, and never larger than there is room.
  new ResizeObserver(() => {
    bar.hidden = panel.hidden;
    if (!panel.hidden && size() > room()) {
      panel.style[side] = `${Math.round(room())}px`;
    }
    say();
  }).observe(panel);
  new ResizeObserver(() => size() > room() && resize(room())).observe(panel.parentElement);
  bar.hidden = panel.hidden;
}
