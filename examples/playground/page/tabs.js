// @ts-check
/** The protocols there are, as buttons; none when there is no choice. */

/** @param {HTMLElement} root @param {import('./app.js').PageState} state @param {(name: string) => void} show called when one is pressed */
export function showTabs(root, { protocols, protocol }, show) {
  if (protocols.length < 2) return;
  protocols.forEach(({ name, title, starting }, index) => {
    const known = root.children[index];
    const button = known instanceof HTMLButtonElement ? known : root.appendChild(createButton(() => show(name)));
    button.textContent = title;
    button.dataset.protocol = name;
    button.dataset.key = String(index + 1);
    button.dataset.starting = starting ? 'yes' : 'no';
    button.setAttribute('aria-pressed', String(name === protocol));
    button.title = starting ? 'its clients are being started' : `Show ${title} (key ${index + 1})`;
  });
}

/** @param {() => void} onClick */
function createButton(onClick) {
  const button = document.createElement('button');
  button.type = 'button';
  button.addEventListener('click', onClick);
  return button;
}
