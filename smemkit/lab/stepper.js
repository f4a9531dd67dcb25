// Shows the steps of a picture one by one: buttons, a slider, and a caption. Nothing is loaded from a network.

function button(text, label, action) {
  const made = document.createElement("button");
  made.textContent = text;
  made.setAttribute("aria-label", label);
  made.addEventListener("click", action);
  return made;
}

function render({ model, el }) {
  const frames = model.get("frames");
  const captions = model.get("captions");
  const picture = document.createElement("div");
  const caption = document.createElement("p");
  const slider = document.createElement("input");
  const controls = document.createElement("div");
  const previous = button("◀", "previous step", () => go(model.get("step") - 1));
  const next = button("▶", "next step", () => go(model.get("step") + 1));

  slider.type = "range";
  slider.min = 0;
  slider.max = frames.length - 1;
  slider.setAttribute("aria-label", "step");
  caption.setAttribute("aria-live", "polite");
  controls.style.cssText = "display: flex; align-items: center; gap: 0.5em";

  function show() {
    const step = model.get("step");
    picture.innerHTML = frames[step];
    caption.textContent = `${step + 1} of ${frames.length}: ${captions[step]}`;
    slider.value = step;
    previous.disabled = step === 0;
    next.disabled = step === frames.length - 1;
  }

  function go(step) {
    model.set("step", Math.min(Math.max(step, 0), frames.length - 1));
    model.save_changes();
    show();
  }

  slider.addEventListener("input", () => go(Number(slider.value)));
  controls.append(previous, slider, next);
  el.append(controls, caption, picture);
  model.on("change:step", show);
  show();
}

export default { render };
