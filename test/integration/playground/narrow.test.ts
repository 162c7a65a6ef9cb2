import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chromiumHint, chromiumPath, openChromium } from '../../support/programs/chromium.js';
import { type Playground, pageUrl, startPlayground, stopPlayground } from '../../support/programs/playground.js';
import { until } from '../../support/until.js';

const PODS = 5;
/** Limits against hanging: clients of a protocol are started when it is first looked at. */
const WAIT_MS = 120_000;

/**
 * What is wrong with the page as it is laid out, as sentences. Figures are made as long as they get: in one go with the
 * measuring, since the next news from the server writes others.
 */
const complaints = `(() => {
  const wrong = [];
  const longest = { '.spread .value': '10.3×', '.errors .value': '12,345', '.p99': '1.25 s', '.p50': '850 ms', '.connections': '120', '.cuts .value': '1,234' };
  const { clientWidth, scrollWidth } = document.documentElement;
  for (const panel of document.querySelectorAll('.panel')) {
    const outer = panel.getBoundingClientRect();
    const inside = (element, what) => {
      const { left, right, top, bottom } = element.getBoundingClientRect();
      if (left < outer.left - 1 || right > outer.right + 1 || bottom > outer.bottom + 1 || top < outer.top - 1) wrong.push(panel.id + ': ' + what + ' is cut off');
    };
    panel.querySelectorAll('.pod').forEach((pod, index) => inside(pod, 'pod ' + (index + 1)));
    for (const [selector, text] of Object.entries(longest)) panel.querySelector(selector).textContent = text;
    panel.querySelector('.errors').dataset.any = 'yes';
    panel.querySelector('.cuts').dataset.any = 'yes';
    const hasCuts = !panel.querySelector('.cuts').hidden;
    const shown = Object.keys(longest).filter((selector) => hasCuts || !selector.startsWith('.cuts'));
    for (const selector of ['canvas', 'h2', '.title p', '.errors', '.sparkline', ...shown]) inside(panel.querySelector(selector), selector);
    const texts = ['.spread .value', '.spread .unit', '.latency .unit', '.errors .value', '.errors .unit', '.title p', ...(hasCuts ? ['.cuts .value', '.cuts .unit'] : [])];
    const boxes = ['.sparkline', ...texts].map((selector) => {
      const range = document.createRange();
      range.selectNodeContents(panel.querySelector(selector));
      return [selector, selector === '.sparkline' ? panel.querySelector(selector).getBoundingClientRect() : range.getBoundingClientRect()];
    });
    for (const [one, a] of boxes) for (const [other, b] of boxes) {
      if (one < other && a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2) wrong.push(panel.id + ': ' + one + ' lies over ' + other);
    }
    const scene = panel.querySelector('.scene').getBoundingClientRect();
    for (const [selector, box] of boxes) if (box.bottom > scene.top + 4) wrong.push(panel.id + ': ' + selector + ' lies over the ship');
  }
  if (document.documentElement.scrollWidth > clientWidth) wrong.push('it scrolls sideways, ' + scrollWidth + ' of ' + clientWidth);
  return wrong;
})()`;

const title = chromiumPath
  ? 'the page in a narrow Chromium'
  : `the page in a narrow Chromium (not run, there is none here; to run it: ${chromiumHint})`;

describe.skipIf(chromiumPath === undefined)(title, { timeout: 3 * WAIT_MS }, () => {
  let playground: Playground;
  let page: Page;
  let closeBrowser: () => Promise<void>;

  beforeAll(async () => {
    playground = startPlayground('--port', '0', '--pods', String(PODS), '--rate', '40');
    const url = await pageUrl(playground);
    const opened = await openChromium({ viewport: { width: 390, height: 844 }, reducedMotion: 'reduce' });
    closeBrowser = opened.close;
    page = opened.context.pages()[0] ?? (await opened.context.newPage());
    await page.goto(url);
    await page.locator('#link[data-live="yes"]').waitFor();
  });
  afterAll(async () => {
    await closeBrowser();
    await stopPlayground(playground);
  });

  it.each(['http', 'grpc', 'websocket'])(
    '%s: shows every pod and number, with no overlap, and does not scroll sideways',
    async (protocol) => {
      const tab = page.locator(`[data-protocol="${protocol}"]`);
      if ((await tab.count()) > 0) await tab.click();
      for (const width of [430, 390, 360, 320]) {
        await page.setViewportSize({ width, height: 844 });
        await until(
          `${protocol} is shown, with its pods`,
          async () => {
            const counts = await page.evaluate(
              `[...document.querySelectorAll('.panel')].map((panel) => panel.querySelectorAll('.pod').length)`,
            );
            const shown = (await page.locator(`[data-protocol="${protocol}"][aria-pressed="true"]`).count()) === 1;
            return shown && (counts as number[]).length >= 2 && (counts as number[]).every((count) => count === PODS);
          },
          WAIT_MS,
        );
        let wrong: unknown = [];
        // The pods are put in their places with the next picture after the size has changed.
        await until('it is laid out', async () => {
          wrong = await page.evaluate(complaints);
          return (wrong as string[]).length === 0;
        }).catch(() => {});
        expect(wrong, `${width} px`).toEqual([]);
      }
    },
  );
});
