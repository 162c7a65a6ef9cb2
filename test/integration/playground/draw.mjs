/**
 * Draws docs/images/playground*.png: the page as `npm start` shows it, a picture for each protocol. On a quiet machine; in two minutes.
 *
 *   node test/integration/playground/draw.mjs                   all of them
 *   node test/integration/playground/draw.mjs grpc websocket    some
 */
import { spawn } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { findCommand, installHint, systemPackages } from '../../../scripts/system-packages.mjs';

const root = new URL('../../../', import.meta.url);
/** What is shown of a protocol: the key of its tab, and that of what happens to its pods first. */
const pictures = {
  http: { file: 'playground.png', tab: '1' },
  grpc: { file: 'playground-grpc.png', tab: '2', action: '+' },
  mysql: { file: 'playground-mysql.png', tab: '3', action: 'r' },
  websocket: { file: 'playground-websocket.png', tab: '4', action: '+' },
};
const named = process.argv.slice(2);
const unknown = named.find((name) => !Object.hasOwn(pictures, name));
if (unknown !== undefined) {
  console.error(`There is no picture of ${unknown}, only of ${Object.keys(pictures).join(', ')}.`);
  process.exit(2);
}
/** Until the page says where it is, in ms. */
const START_MS = 60_000;
/** From then on: until latencies are those of the last five seconds, pods have been replaced, and the ships lie still. */
const SETTLE_MS = 20_000;

const wanted = systemPackages.find(({ name }) => name === 'Chromium');
const executablePath = wanted && findCommand(wanted.commands);
if (wanted === undefined || executablePath === undefined) {
  console.error(`There is no Chromium here. ${wanted ? installHint(wanted) : ''}`);
  process.exit(1);
}
const playground = spawn(
  process.execPath,
  [fileURLToPath(new URL('examples/playground/main.js', root)), '--port', '0'],
  {
    stdio: ['ignore', 'pipe', 'inherit'],
  },
);
const url = await new Promise((resolve, reject) => {
  let said = '';
  const timer = setTimeout(() => reject(new Error('the playground names no page')), START_MS);
  playground.stdout.on('data', (chunk) => {
    said += chunk;
    const [found] = /http:\/\/\S+/.exec(said) ?? [];
    if (found === undefined) return;
    clearTimeout(timer);
    resolve(found);
  });
});
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 720 }, colorScheme: 'light' });
  await page.goto(url);
  await page.locator('#link[data-live="yes"]').waitFor();
  for (const [name, { file, tab, action }] of Object.entries(pictures)) {
    if (named.length > 0 && !named.includes(name)) continue;
    await page.keyboard.press(tab);
    await pause(SETTLE_MS);
    if (action !== undefined) {
      await page.keyboard.press(action);
      await pause(SETTLE_MS);
    }
    const path = fileURLToPath(new URL(`docs/images/${file}`, root));
    await page.screenshot({ path });
    const busy = await page.locator('#busy-machine').textContent();
    console.log(busy === '' ? `wrote ${path}` : `wrote ${path}, but ${busy}`);
  }
} finally {
  await browser.close();
  playground.kill('SIGINT');
}
