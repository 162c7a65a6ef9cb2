/**
 * Draws docs/images/playground.png: the page as `npm start` shows it. On a quiet machine; in half a minute.
 *
 *   node test/integration/playground/draw.mjs [file]
 */
import { spawn } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { findCommand, installHint, systemPackages } from '../../../scripts/system-packages.mjs';

const root = new URL('../../../', import.meta.url);
const [file = fileURLToPath(new URL('docs/images/playground.png', root))] = process.argv.slice(2);
/** Until the page says where it is, in ms. */
const START_MS = 60_000;
/** From then on: until latencies are those of the last five seconds, and the ships lie still. */
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
  await pause(SETTLE_MS);
  await page.screenshot({ path: file });
  const busy = await page.locator('#busy-machine').textContent();
  console.log(busy === '' ? `wrote ${file}` : `wrote ${file}, but ${busy}`);
} finally {
  await browser.close();
  playground.kill('SIGINT');
}
