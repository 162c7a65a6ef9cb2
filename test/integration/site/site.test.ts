import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chromiumHint, chromiumPath, openChromium } from '../../support/programs/chromium.js';
import { titleOf } from '../../support/title-of.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const built = join(root, 'build/site');
/** Limits against hanging: half a minute on a quiet machine. */
const BUILD_MS = 600_000;

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
};

/** Serves the built files, as any server of static files would. */
async function serve(): Promise<{ server: Server; url: string }> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost');
    const file = join(built, pathname.endsWith('/') ? `${pathname}index.html` : pathname);
    if (!existsSync(file)) return response.writeHead(404).end();
    return response.writeHead(200, { 'content-type': types[extname(file)] ?? 'text/plain' }).end(readFileSync(file));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

let output = '';
let status: number | undefined;

const isProof = process.env.EVENKEEL_PROOF !== undefined;

describe.runIf(isProof)(
  titleOf('the built site', isProof, 'it takes half a minute to build; npm run proof -- site'),
  () => {
    beforeAll(async () => {
      const child = spawn(process.execPath, ['site/build.mjs'], {
        cwd: root,
        env: { ...process.env, NODE_ENV: 'production', VITEST: undefined },
      });
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
      [status] = (await once(child, 'close')) as [number];
    }, BUILD_MS);

    describe('npm run site', () => {
      it('builds every page, and finds no link that leads nowhere, no picture without a text, no request to another host', () => {
        expect(status, output).toBe(0);
        const [, pages, links, images] = /(\d+) pages, (\d+) links, (\d+) images, .* 0 problems/.exec(output) ?? [];
        expect(Number(pages)).toBeGreaterThan(100);
        expect(Number(links)).toBeGreaterThan(5000);
        expect(Number(images)).toBeGreaterThan(10);
      });

      it('writes the documentation for coding assistants, whose links lead to files', () => {
        const list = readFileSync(join(built, 'llms.txt'), 'utf8');
        const links = [...list.matchAll(/\]\(\/([^)]+)\)/g)].map(([, path = '']) => path);
        expect(links.length).toBeGreaterThan(80);
        expect(links.filter((path) => !existsSync(join(built, path)))).toEqual([]);
        expect(readFileSync(join(built, 'llms-full.txt'), 'utf8')).toContain('# HTTP: undici and fetch');
      });
    });

    const title = chromiumPath
      ? 'the site in Chromium'
      : `the site in Chromium (not run, there is none here; to run it: ${chromiumHint})`;

    describe.skipIf(chromiumPath === undefined)(title, () => {
      let server: Server;
      let url: string;
      let page: Page;
      let closeBrowser: () => Promise<void>;
      /** What pages asked other hosts for, and what failed in them. */
      const wrong: string[] = [];

      beforeAll(async () => {
        ({ server, url } = await serve());
        const opened = await openChromium({ viewport: { width: 1280, height: 800 }, colorScheme: 'light' });
        closeBrowser = opened.close;
        page = opened.context.pages()[0] ?? (await opened.context.newPage());
        page.on('request', (request) => {
          if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(url)) wrong.push(request.url());
        });
        page.on('pageerror', (error) => wrong.push(error.message));
        page.on('response', (response) => {
          if (response.status() >= 400) wrong.push(`${response.status()} ${response.url()}`);
        });
      });
      afterAll(async () => {
        await closeBrowser();
        server.close();
        server.closeAllConnections();
      });

      const sideways = (): Promise<number> =>
        page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');

      it('shows on the front page, on one screen, what it is, the picture, the install line, code, and three ways in', async () => {
        await page.goto(`${url}/`);
        for (const selector of ['h1', '.front-picture img', '.language-sh', '.language-js', '.entries a >> nth=2']) {
          const box = await page.locator(selector).first().boundingBox();
          expect(box, selector).not.toBeNull();
          expect((box?.y ?? 0) + (box?.height ?? 0), selector).toBeLessThanOrEqual(800);
        }
        const width: number = await page.evaluate("document.querySelector('.front-picture img').naturalWidth");
        expect(width).toBeGreaterThan(500);
        await page.locator('.entries a').nth(1).click();
        await page.getByRole('heading', { level: 1, name: /gRPC/ }).waitFor();
      });

      it.each(['/', '/guide/http.html', '/reference/options.html', '/api/undici.html'])(
        '%s fits into 390 pixels, in light and dark',
        async (path) => {
          await page.setViewportSize({ width: 390, height: 844 });
          for (const colorScheme of ['light', 'dark'] as const) {
            await page.emulateMedia({ colorScheme });
            await page.goto(url + path);
            await page.locator('h1').first().waitFor();
            expect(await sideways()).toBe(0);
            const background: string = await page.evaluate('getComputedStyle(document.body).backgroundColor');
            expect(background === 'rgb(255, 255, 255)').toBe(colorScheme === 'light');
          }
          await page.setViewportSize({ width: 1280, height: 800 });
        },
      );

      it('leads by its sidebar from one guide to another, and to a name of the API', async () => {
        await page.goto(`${url}/guide/http.html`);
        await page.locator('.VPSidebar').getByRole('link', { name: 'Servers of language models' }).click();
        await page.getByRole('heading', { level: 1, name: /Servers of language models/ }).waitFor();
        await page.goto(`${url}/api/undici.html#createFetch`);
        await page.getByRole('heading', { name: 'createFetch' }).waitFor();
      });

      it('finds pages by keyboard search', async () => {
        await page.goto(`${url}/`);
        await page.keyboard.press('Control+k');
        await page.locator('.VPLocalSearchBox input').waitFor();
        await page.keyboard.type('waitTimeoutMs');
        await page.locator('.VPLocalSearchBox .result').first().waitFor();
        await page.keyboard.press('Enter');
        await page.waitForURL(/\/(reference|guide|api)\//);
      });

      it('finds the section that an error is quoted in, by the words of the error', async () => {
        await page.goto(`${url}/`);
        await page.keyboard.press('Control+k');
        await page.locator('.VPLocalSearchBox input').fill('too many clients already');
        await page.locator('.VPLocalSearchBox .result').first().filter({ hasText: 'Full servers' }).waitFor();
      });

      it('makes no request to another host, and nothing fails', () => {
        expect(wrong).toEqual([]);
      });
    });
  },
);
