/**
 * Draws docs/images/playground-*.png: the page as `npm start` shows it, a picture for each protocol but HTTP. On a quiet machine; in two minutes.
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
/** What is shown of a protocol: the key of its tab, that of what happens to its pods first, and options of the playground. */
const pictures = {
  grpc: { file: 'playground-grpc.png', tab: '1', action: '+', options: [] },
  mysql: { file: 'playground-mysql.png', tab: '3', action: 'r', options: [] },
  websocket: { file: 'playground-websocket.png', tab: '4', action: '+', options: [] },
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
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
try {
  for (const [name, picture] of Object.entries(pictures)) {
    if (named.length === 0 || named.includes(name)) await draw(picture);
  }
} finally {
  await browser.close();
}

/** @param {{ file: string, tab: string, action?: string, options: readonly string[] }} picture */
async function draw({ file, tab, action, options }) {
  const main = fileURLToPath(new URL('examples/playground/main.js', root));
  const playground = spawn(process.execPath, [main, '--port', '0', ...options], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 720 }, colorScheme: 'light' });
    await page.goto(await urlFrom(playground.stdout));
    await page.locator('#link[data-live="yes"]').waitFor();
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
    await page.close();
  } finally {
    playground.kill('SIGINT');
  }
}

/** The page's address, as the playground prints it. @param {import('node:stream').Readable} stdout @returns {Promise<string>} */
function urlFrom(stdout) {
  return new Promise((resolve, reject) => {
    let said = '';
    const timer = setTimeout(() => reject(new Error('the playground names no page')), START_MS);
    stdout.on('data', (chunk) => {
      said += chunk;
      const [found] = /http:\/\/\S+/.exec(said) ?? [];
      if (found === undefined) return;
      clearTimeout(timer);
      resolve(found);
    });
  });
}
