import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { chromiumHint, chromiumPath, openChromium } from '../../support/programs/chromium.js';
import {
  type Playground,
  pageUrl,
  severalAddresses,
  startPlayground,
  stopPlayground,
} from '../../support/programs/playground.js';
import { until } from '../../support/until.js';

interface ClientState {
  readonly name: string;
  readonly perSecond: Readonly<Record<string, number>>;
  /** What is spread: requests per second, or connections where they live for hours. */
  readonly load: Readonly<Record<string, number>>;
  readonly maxOverMean?: number;
  /** Connections that ended without a close frame. */
  readonly cut: number;
  readonly answers: Readonly<Record<string, number>>;
  readonly errors: number;
  readonly errorKinds: Readonly<Record<string, number>>;
  /** How late the client itself ever sent. */
  readonly latestMs: number;
  readonly setAside: readonly string[];
}

interface State {
  readonly desired: number;
  readonly pods: readonly { readonly name: string; readonly state: string; readonly restarts: number }[];
  readonly protocol: string;
  readonly clients: readonly ClientState[];
  readonly log: readonly { readonly text: string }[];
}

/** What is known of one client. */
function clientOf({ clients }: State, name: string): ClientState {
  const found = clients.find((client) => client.name === name);
  if (found === undefined) throw new Error(`no client ${name} is shown`);
  return found;
}

const PODS = 4;
// With half as many a pod ten times as slow is mostly idle again before its turn comes, and keeps 0.88 of its share.
const PER_SECOND = 120;
const WAIT_MS = 60_000;
const BUSY_MS = 200;
const OUT_OF_TIME = new Set(['no answer in 3 s', 'not sent, too many in flight', 'DEADLINE_EXCEEDED']);

/** The next thing the server tells its viewers. */
async function readState(url: string): Promise<State> {
  const reader = (await fetch(`${url}/events`)).body?.getReader();
  if (reader === undefined) throw new Error('the server tells nothing');
  const decoder = new TextDecoder();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    text += decoder.decode(value, { stream: true });
    const found = /^data: (.*)\n\n/m.exec(text);
    if (found === null && !done) continue;
    await reader.cancel();
    return JSON.parse(found?.[1] as string) as State;
  }
}

describe('the server of the playground', () => {
  let playground: Playground;
  let url: string;
  beforeAll(async () => {
    playground = startPlayground('--port', '0', '--pods', '1', '--rate', '10');
    url = await pageUrl(playground);
  });
  afterAll(() => stopPlayground(playground));

  const post = (path: string, headers: Record<string, string>): Promise<Response> =>
    fetch(`${url}${path}`, { method: 'POST', headers });

  test('accepts actions from its own page only', async () => {
    expect((await post('/actions/scale-up', {})).status).toBe(403);
    expect((await post('/actions/scale-up', { origin: 'http://elsewhere.example' })).status).toBe(403);
    expect((await fetch(`${url}/actions/scale-up`)).status).toBe(405);
    expect((await post('/actions/toString', { origin: url })).status).toBe(404);
    expect((await readState(url)).desired).toBe(1);
    expect((await post('/actions/scale-up', { origin: url })).status).toBe(200);
    expect((await readState(url)).desired).toBe(2);
  });

  test('gives the reason why an action cannot be taken', async () => {
    const refused = await post('/actions/heal', { origin: url });
    expect(refused.status).toBe(409);
    expect(await refused.text()).toBe('every pod is well');
  });

  test('serves only its own files, and nothing outside its folder', async () => {
    const page = await fetch(url);
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(await page.text()).not.toMatch(/https?:\/\/|style=|onclick/);
    expect((await fetch(`${url}/../main.js`)).status).toBe(404);
    expect((await fetch(`${url}/%2e%2e/main.js`)).status).toBe(404);
  });
});

/**
 * What is wrong with the page as it is laid out, as sentences. Figures are made as long as they get: in one go with the
 * measuring, since the next news from the server writes others.
 */
const layoutComplaints = `(() => {
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
  ? 'the page in Chromium'
  : `the page in Chromium (not run, there is none here; to run it: ${chromiumHint})`;

// Limits against hanging, far above what a quiet machine needs.
describe.skipIf(chromiumPath === undefined)(title, { timeout: 4 * WAIT_MS }, () => {
  let playground: Playground;
  let url: string;
  let page: Page;
  let closeBrowser: () => Promise<void>;
  const complaints: string[] = [];

  beforeAll(async () => {
    playground = startPlayground('--port', '0', '--pods', String(PODS), '--rate', String(PER_SECOND));
    url = await pageUrl(playground);
    // Without motion the browser leaves the processor to the traffic.
    const opened = await openChromium({ viewport: { width: 1280, height: 720 }, reducedMotion: 'reduce' });
    closeBrowser = opened.close;
    page = opened.context.pages()[0] ?? (await opened.context.newPage());
    page.on('console', (message) => {
      // The browser notes every refused action; one test asks for one.
      const refused = message.text().includes('409 (Conflict)');
      if ((message.type() === 'error' || message.type() === 'warning') && !refused) complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(error.message));
    await page.goto(url);
    await page.locator('#link[data-live="yes"]').waitFor();
    await page.locator('[data-protocol="http"]').click();
    await page.locator('[data-protocol="http"][aria-pressed="true"]').waitFor({ timeout: WAIT_MS });
  });
  afterAll(async () => {
    await closeBrowser();
    expect((await stopPlayground(playground)).code).toBe(0);
  });

  const pods = (client: string, filter = ''): Locator => page.locator(`#${client} .pod${filter}`);
  const loadOf = async (pod: Locator): Promise<number> => Number(await pod.getAttribute('data-load'));
  const errorsOf = async (client: string): Promise<number> =>
    Number(await page.locator(`#${client} .errors .value`).textContent());
  /**
   * evenkeel lost no request. What ran out of time on a machine so busy that the client itself sent late is the machine's;
   * any other reason counts there, too.
   */
  async function losesNothing(): Promise<void> {
    const { errorKinds, latestMs } = clientOf(await readState(url), 'evenkeel');
    const lost = Object.entries(errorKinds)
      .filter(([kind]) => latestMs < BUSY_MS || !OUT_OF_TIME.has(kind))
      // gRPC makes no call again whose headers have come, and kill -9 may fall between those and the trailers.
      .filter(([kind]) => !kind.endsWith(', its answer had begun'));
    expect(lost, `sent up to ${Math.round(latestMs)} ms late`).toEqual([]);
  }
  const press = (action: string): Promise<void> => page.locator(`[data-action="${action}"]`).click();

  /** Every pod on both halves is ready, `count` of them, and each one serves evenkeel. */
  const allServe = (count: number): Promise<void> =>
    until(
      `${count} ready pods, each with its share of evenkeel's requests or connections`,
      async () => {
        if ((await pods('ordinary', '[data-state="ready"]').count()) !== count) return false;
        if ((await pods('evenkeel').count()) !== count) return false;
        const loads = await Promise.all((await pods('evenkeel', '[data-state="ready"]').all()).map(loadOf));
        return loads.length === count && loads.every((load) => load > 0);
      },
      WAIT_MS,
    );

  /** Chooses a pod by a click on it, on evenkeel's half, and returns its name. */
  async function choose(index: number): Promise<string> {
    const pod = pods('evenkeel').nth(index);
    const name = (await pod.getAttribute('data-pod')) as string;
    if ((await pod.getAttribute('aria-pressed')) !== 'true') await pod.click();
    await pods('ordinary', `[data-pod="${name}"][aria-pressed="true"]`).waitFor();
    return name;
  }

  const stateOnPage = (name: string, state: string): Promise<void> =>
    pods('ordinary', `[data-pod="${name}"][data-state="${state}"]`).waitFor({ timeout: WAIT_MS });

  const inCluster = (what: string, condition: (state: State) => boolean): Promise<void> =>
    until(what, async () => condition(await readState(url)), WAIT_MS);

  const podIn = (state: State, name: string): State['pods'][number] | undefined =>
    state.pods.find((pod) => pod.name === name);

  test('shows both clients under the same traffic, on one screen', async () => {
    await allServe(PODS);
    for (const client of ['ordinary', 'evenkeel']) {
      await until(`${client} has figures`, async () =>
        /^\d/.test((await page.locator(`#${client} .spread .value`).textContent()) ?? ''),
      );
      expect(await page.locator(`#${client} .p99`).textContent()).toMatch(/^\d.* m?s$/);
      expect(Number(await page.locator(`#${client} .connections`).textContent())).toBeGreaterThan(0);
    }
    const fits =
      'document.documentElement.scrollHeight <= innerHeight && document.documentElement.scrollWidth <= innerWidth';
    expect(await page.evaluate(fits)).toBe(true);
  });

  test('scale up: the new pod gets its share through evenkeel', async () => {
    await press('scale-up');
    await inCluster(
      'five pods are ready',
      ({ pods }) => pods.filter(({ state }) => state === 'ready').length === PODS + 1,
    );
    await allServe(PODS + 1);
    await losesNothing();
  });

  test('scale down: a pod leaves gracefully', async () => {
    await press('scale-down');
    await inCluster('four pods are left', ({ pods }) => pods.length === PODS);
    await allServe(PODS);
    await losesNothing();
  });

  test('kill -9: the chosen pod dies and is restarted', async () => {
    const name = await choose(1);
    await press('kill');
    await inCluster('it was restarted', (state) => podIn(state, name)?.restarts === 1);
    await inCluster('it is ready again', (state) => podIn(state, name)?.state === 'ready');
    await allServe(PODS);
    await losesNothing();
  });

  test('slow, and heal: evenkeel sends the chosen pod less while it is slow', async () => {
    const name = await choose(2);
    await press('slow');
    await stateOnPage(name, 'slow');
    // It gets 0.58 of it; what is shown is the last two seconds, 0.46 to 0.70.
    await inCluster('it gets less than three quarters of the mean', (state) => {
      const evenkeel = clientOf(state, 'evenkeel');
      const total = Object.values(evenkeel.perSecond).reduce((sum, rate) => sum + rate, 0);
      return (evenkeel.perSecond[name] ?? 0) < (total / PODS) * 0.75;
    });
    await press('heal');
    await stateOnPage(name, 'ready');
    await allServe(PODS);
    await losesNothing();
  });

  test('unready, and heal: evenkeel sends the chosen pod nothing until it is ready', async () => {
    const name = await choose(0);
    await press('unready');
    await stateOnPage(name, 'not ready');
    await until(
      'evenkeel sends it nothing',
      async () => (await loadOf(pods('evenkeel', `[data-pod="${name}"]`))) === 0,
    );
    await inCluster('the readiness probe failed', ({ log }) =>
      log.some(({ text }) => text === `${name} is no longer ready`),
    );
    await press('heal');
    await stateOnPage(name, 'ready');
    await allServe(PODS);
    await losesNothing();
  });

  test('roll all, by its key: every pod is replaced', async () => {
    const before = new Set((await readState(url)).pods.map(({ name }) => name));
    await page.locator('h1').click(); // the key belongs to the page, not to a button
    await page.keyboard.press('r');
    await inCluster(
      'none of the old pods is left',
      (state) => state.pods.length === PODS && !state.pods.some(({ name }) => before.has(name)),
    );
    await allServe(PODS);
    await losesNothing();
    expect(await page.locator('#log').textContent()).toContain('rolling update to revision 2');
  });

  test('fail fast, and heal: evenkeel ejects the chosen pod after a few errors', async () => {
    const name = await choose(1);
    await press('fail');
    await stateOnPage(name, 'failing');
    await pods('evenkeel', `[data-pod="${name}"][data-aside="yes"]`).waitFor({ timeout: WAIT_MS });
    expect(await errorsOf('evenkeel')).toBeGreaterThan(0); // it cannot be known before it fails
    await press('heal');
    await stateOnPage(name, 'ready');
    await until(
      'errors stop',
      async () => {
        return !clientOf(await readState(url), 'evenkeel').setAside.includes(name);
      },
      WAIT_MS * 2,
    );
    await allServe(PODS);
  });

  // What gRPC does when pods come and go: once.test.ts.
  test('gRPC: three clients side by side, and the one that is paused sends nothing', async () => {
    await page.locator('[data-protocol="grpc"]').click();
    await inCluster('gRPC is shown', ({ protocol }) => protocol === 'grpc');
    await page.locator('[data-protocol="grpc"][aria-pressed="true"]').waitFor();
    expect(await page.locator('.panel').count()).toBe(severalAddresses ? 3 : 2);
    await allServe(PODS);
    await until(
      'the ordinary client has one connection',
      async () => (await page.locator('#ordinary .connections').textContent()) === '1',
    );
    await until(
      'each pod has a connection of evenkeel',
      async () => (await page.locator('#evenkeel .connections').textContent()) === String(PODS),
    );
    const fits =
      'document.documentElement.scrollHeight <= innerHeight && document.documentElement.scrollWidth <= innerWidth';
    expect(await page.evaluate(fits)).toBe(true);
  });

  test('MySQL: names the servers; scale up and kill -9 fail no query of evenkeel', async () => {
    await page.locator('[data-protocol="mysql"]').click();
    await inCluster('MySQL is shown', ({ protocol }) => protocol === 'mysql');
    await until('the page says what the servers are', async () =>
      /real MariaDB servers|stand-ins/.test((await page.locator('#summary').textContent()) ?? ''),
    );
    expect(await page.locator('.panel').count()).toBe(severalAddresses ? 3 : 2);
    await allServe(PODS);
    const before = new Set((await readState(url)).pods.map(({ name }) => name));
    await press('scale-up');
    await allServe(PODS + 1);
    const fresh = (await readState(url)).pods.find(({ name }) => !before.has(name))?.name as string;
    // The ordinary pool may open one more connection, and find it; PoolCluster was told its nodes once.
    if (severalAddresses) expect(clientOf(await readState(url), 'pool-cluster').answers[fresh]).toBe(0);
    const name = await choose(1);
    await press('kill');
    await inCluster('it was restarted', (state) => podIn(state, name)?.restarts === 1);
    await allServe(PODS + 1);
    await losesNothing();
  });

  const evenAgain = (): Promise<void> =>
    inCluster("evenkeel's connections are even", (state) => {
      const { maxOverMean = Number.POSITIVE_INFINITY } = clientOf(state, 'evenkeel');
      return state.pods.length === state.desired && maxOverMean <= 1.2;
    });

  test('WebSocket, scale up: the new pod stays idle on the left, and gets its share through evenkeel', async () => {
    await page.locator('[data-protocol="websocket"]').click();
    await inCluster('WebSocket is shown', ({ protocol }) => protocol === 'websocket');
    await allServe(PODS);
    for (const client of ['ordinary', 'evenkeel']) {
      expect(await page.locator(`#${client} .connections`).textContent(), client).toBe('30');
    }
    const before = new Set((await readState(url)).pods.map(({ name }) => name));
    await press('scale-up');
    await allServe(PODS + 1);
    await evenAgain();
    const state = await readState(url);
    const fresh = state.pods.find(({ name }) => !before.has(name))?.name as string;
    expect(clientOf(state, 'ordinary').load[fresh]).toBe(0);
    expect(await loadOf(pods('ordinary', `[data-pod="${fresh}"]`))).toBe(0);
    expect(clientOf(state, 'evenkeel').load[fresh]).toBeGreaterThan(0);
    expect(clientOf(state, 'evenkeel').cut).toBe(0);
    await losesNothing();
  });

  test('WebSocket, roll all: the ordinary client is cut without a close frame, evenkeel leaves before', async () => {
    const before = new Set((await readState(url)).pods.map(({ name }) => name));
    await press('roll');
    await inCluster(
      'none of the old pods is left',
      (state) => state.pods.length === PODS + 1 && !state.pods.some(({ name }) => before.has(name)),
    );
    await evenAgain();
    const state = await readState(url);
    expect(clientOf(state, 'ordinary').cut).toBeGreaterThanOrEqual(30);
    const cutsOf = async (client: string): Promise<number> =>
      Number(await page.locator(`#${client} .cuts .value`).textContent());
    await until('the page tells', async () => (await cutsOf('ordinary')) >= 30);
    // A client that is kept from running for a second leaves too late.
    const { cut, latestMs } = clientOf(state, 'evenkeel');
    if (latestMs < BUSY_MS) expect(cut).toBe(0);
    await losesNothing();
    await press('scale-down');
    await inCluster('one pod less', ({ pods }) => pods.length === PODS);
  });

  test('back to HTTP, by its key: its clients continue where they were', async () => {
    await page.locator('h1').click();
    await page.keyboard.press('2');
    await inCluster('HTTP is shown', ({ protocol }) => protocol === 'http');
    await allServe(PODS);
    expect(await page.locator('.panel').count()).toBe(3);
  });

  test('explains why a button can do nothing', async () => {
    // The first forgets the errors that were shown, should there be any.
    await press('heal');
    await until('no errors are shown', async () => (await readState(url)).clients.every(({ errors }) => errors === 0));
    await press('heal');
    await page.locator('#notice', { hasText: 'every pod is well' }).waitFor();
  });

  test.each(['http', 'grpc', 'websocket'])(
    '%s on a narrow screen: shows every pod and number, with no overlap, and does not scroll sideways',
    async (protocol) => {
      await page.locator(`[data-protocol="${protocol}"]`).click();
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
          wrong = await page.evaluate(layoutComplaints);
          return (wrong as string[]).length === 0;
        }).catch(() => {});
        expect(wrong, `${width} px`).toEqual([]);
      }
    },
  );

  test('works on a phone and in the dark, without scrolling sideways', async () => {
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.setViewportSize({ width: 390, height: 844 });
    await until('nothing is wider than the screen', () =>
      page.evaluate<boolean>('document.documentElement.scrollWidth <= innerWidth'),
    );
    await page.locator('[data-action="unready"]').scrollIntoViewIfNeeded();
    await page.locator('#about-open').click();
    await page.locator('#about[open]').waitFor();
    await page.keyboard.press('Escape');
  });

  test('the browser reported no error', () => {
    expect(complaints).toEqual([]);
  });
});
