import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  conditions,
  createBalancer,
  EvenkeelError,
  inFlight,
  outcomes,
  outlierEjection,
  panic,
  ResolveError,
} from 'evenkeel';
import { createAdminHandler } from 'evenkeel/admin';
import { FakeResolver, FakeTransport } from 'evenkeel/testing';
import express from 'express';
import Fastify from 'fastify';
import { request } from 'undici';
import { beforeEach, describe, expect, it } from 'vitest';
import { calledAfterEach } from '../../support/opened.js';
import { chromiumHint, chromiumPath, openChromium } from '../../support/programs/chromium.js';
import { runHere } from '../../support/programs/doctor.js';
import { until } from '../../support/until.js';

const open = calledAfterEach();

let handler: ReturnType<typeof createAdminHandler>;
let base: string;

async function serve(listener: Parameters<typeof createServer>[1]): Promise<string> {
  const server: Server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

beforeEach(async () => {
  handler = createAdminHandler({ hosts: ['debug.shop'] });
  open.push(() => handler.close());
  base = await serve(handler);
});

let balancers = 0;
/** A balancer of three pods, one of which was ejected; and its target. */
async function balancer() {
  const target = `orders-${++balancers}`;
  const resolver = new FakeResolver();
  const one = createBalancer({
    resolver: { name: target, watch: (listener) => resolver.watch(listener) },
    transport: new FakeTransport(),
    // The default load would avoid a failing pod before it is ejected.
    load: inFlight(),
    // The first one lasts a second otherwise, and might be over before it is looked at.
    stages: [conditions(), outlierEjection({ baseEjectionMs: 3_600_000 }), panic()],
  });
  open.push(() => one.close({ signal: AbortSignal.abort() }));
  resolver.update(
    { address: '10.0.0.1', port: 80, name: 'orders-a', zone: 'eu-1' },
    { address: '10.0.0.2', port: 80, name: 'orders-b' },
    { address: '10.0.0.3', port: 80, name: '<img src=x onerror=alert(1)>' },
  );
  await until('all are ready', () => one.snapshot().endpoints.filter(({ state }) => state === 'ready').length === 3);
  return { one, target, resolver };
}

const text = async (path: string, headers: Record<string, string> = {}, method: 'GET' | 'POST' | 'HEAD' = 'GET') => {
  const { statusCode, headers: got, body } = await request(`${base}${path}`, { headers, method });
  return { statusCode, headers: got, text: await body.text() };
};
const shown = async (target: string) => {
  const { balancers: all } = JSON.parse((await text('/balancers')).text) as { balancers: { resolver: string }[] };
  return all.find(({ resolver }) => resolver === target);
};

describe('the admin handler', () => {
  it('shows every balancer as JSON, with the reasons why endpoints are out, and its metrics', async () => {
    const { one, target } = await balancer();
    for (let call = 0; call < 60; call++) {
      const lease = one.pick();
      lease?.end(lease.endpoint.name === 'orders-b' ? outcomes.reset : outcomes.success);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await shown(target)).toMatchObject({
      id: expect.any(Number),
      resolver: target,
      endpoints: expect.arrayContaining([
        expect.objectContaining({
          name: 'orders-b',
          suspect: true,
          ejectedBecause: '5 failures in a row (last: reset)',
        }),
      ]),
      counts: { ejections: { consecutive: 1 } },
    });
    expect((await text('/metrics')).text).toContain(`evenkeel_picks_total{evenkeel_target="${target}"}`);
    const streamed = await request(`${base}/events`);
    let told = '';
    for await (const chunk of streamed.body) {
      told += String(chunk);
      if (told.includes('5 failures in a row')) break;
    }
    expect(told).toContain('orders-b (10.0.0.2:80) is out for');
  });

  it('masks what looks like a credential', async () => {
    const { target, resolver } = await balancer();
    resolver.fail(new ResolveError('https://user:hunter2@api answered 401 to Bearer abc.def, token=s3cret'));
    await until('it fails', async () => JSON.stringify(await shown(target)).includes('resolveError'));
    const all = (await text('/balancers')).text;
    expect(all).not.toMatch(/hunter2|abc\.def|s3cret/);
    expect(all).toContain('https://***@api answered 401 to Bearer ***, token=***');
  });

  it('answers under addresses, localhost and the names it was given, and under no other name', async () => {
    for (const host of ['127.0.0.1:9901', 'localhost', '[::1]:80', 'debug.shop', 'DEBUG.shop:1']) {
      expect((await text('/balancers', { host })).statusCode, host).toBe(200);
    }
    for (const host of ['evil.example', '127.0.0.1.evil.example', 'localhost.evil.example:80', 'a@127.0.0.1']) {
      for (const path of ['/', '/balancers', '/metrics', '/events']) {
        expect((await text(path, { host })).statusCode, host + path).toBe(403);
      }
    }
  });

  it('changes nothing, and cannot be framed or cached', async () => {
    expect((await text('/balancers', {}, 'POST')).statusCode).toBe(405);
    expect((await text('/nothing')).statusCode).toBe(404);
    const page = await text('/');
    expect(page.headers).toMatchObject({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
    expect(page.headers['content-security-policy']).toMatch(
      /^default-src 'none'; style-src 'nonce-[^']+'; script-src 'nonce-/,
    );
    expect(page.text).not.toMatch(/https?:\/\//);
    expect((await text('/', {}, 'HEAD')).text).toBe('');
  });

  it('ends streams at close, and refuses more than ten', async () => {
    const streams = await Promise.all(Array.from({ length: 10 }, () => request(`${base}/events`)));
    expect((await text('/events')).statusCode).toBe(503);
    handler.close();
    await Promise.all(streams.map(({ body }) => body.dump()));
  });

  it('refuses options it cannot use', () => {
    expect(() => createAdminHandler({ hosts: 'debug.shop' } as never)).toThrow(EvenkeelError);
    expect(() => createAdminHandler({ host: [] } as never)).toThrow('hosts');
  });

  it('works as middleware of Express under a path, and passes on requests for pages it does not have', async () => {
    const app = express();
    app.use('/debug/evenkeel', handler);
    app.use((_request, response) => void response.status(418).end());
    base = await serve(app);
    const bare = await text('/debug/evenkeel');
    expect(bare).toMatchObject({ statusCode: 302, headers: { location: './evenkeel/' } });
    expect((await text('/debug/evenkeel/')).text).toContain('<!doctype html>');
    expect((await text('/debug/evenkeel/balancers')).statusCode).toBe(200);
    expect((await text('/debug/evenkeel/nothing')).statusCode).toBe(418);
  });

  it.each(Object.getOwnPropertyNames(Object.prototype))('has no page named %s', async (name) => {
    expect(await text(`/${name}`)).toMatchObject({ statusCode: 404, text: 'not found\n' });
    const app = express().use('/debug', handler);
    app.use((_request, response) => void response.send('the application'));
    expect(await (await request(`${await serve(app)}/debug/${name}`)).body.text()).toBe('the application');
  });

  it('works in Fastify', async () => {
    const app = Fastify();
    app.all('/debug/*', (incoming, reply) => {
      reply.hijack();
      handler(incoming.raw, reply.raw);
    });
    await app.listen({ port: 0, host: '127.0.0.1' });
    open.push(() => app.close());
    base = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
    expect((await text('/debug/')).text).toContain('<!doctype html>');
    expect((await text('/debug/balancers')).statusCode).toBe(200);
  });

  it.skipIf(chromiumPath === undefined)(
    `shows the balancers live in a browser, also on a phone${chromiumPath === undefined ? ` (not run: ${chromiumHint})` : ''}`,
    async () => {
      const { one, target } = await balancer();
      const { context, close } = await openChromium({ viewport: { width: 390, height: 800 } });
      open.push(close);
      const page = await context.newPage();
      const wrong: string[] = [];
      page.on('pageerror', (error) => wrong.push(error.message));
      page.on('console', (message) => message.type() === 'error' && wrong.push(message.text()));
      await page.goto(`${base}/`);
      await page.getByRole('heading', { name: target, exact: true }).waitFor();
      await page.getByText('<img src=x onerror=alert(1)>').first().waitFor();
      for (let call = 0; call < 30; call++) {
        const lease = one.pick();
        lease?.end(lease.endpoint.name === 'orders-b' ? outcomes.reset : outcomes.success);
      }
      // The list of events says it, too.
      await page.locator('.why', { hasText: '5 failures in a row (last: reset)' }).waitFor();
      await page.locator('#events li', { hasText: 'is out for' }).first().waitFor();
      expect(await page.evaluate<boolean>('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
      expect(wrong).toEqual([]);
    },
  );

  it.skipIf(chromiumPath === undefined)(
    `shows the one bad pod of a thousand first, and the events without scrolling far${chromiumPath === undefined ? ` (not run: ${chromiumHint})` : ''}`,
    async () => {
      const { one, target, resolver } = await balancer();
      const names = Array.from({ length: 1_000 }, (_, index) => `orders-${index}`);
      resolver.update(
        ...names.map((name, index) => ({ address: `10.1.${index >> 8}.${index & 255}`, port: 80, name })),
      );
      const readyCount = () => one.snapshot().endpoints.filter(({ status }) => status === 'ready').length;
      await until('all are ready', () => readyCount() === 1_000);
      for (let call = 0; call < 20_000 && (call % 1_000 > 0 || readyCount() === 1_000); call++) {
        const lease = one.pick();
        lease?.end(lease.endpoint.name === 'orders-777' ? outcomes.reset : outcomes.success);
      }
      await until('the bad pod is out', () => readyCount() === 999);
      const { context, close } = await openChromium({ viewport: { width: 1_200, height: 800 } });
      open.push(close);
      const page = await context.newPage();
      await page.goto(`${base}/`);
      const section = page.locator('section', { has: page.getByRole('heading', { name: target, exact: true }) });
      await section.locator('.facts b', { hasText: /^999 ready, .*1 ejected/ }).waitFor();
      expect(await section.locator('.pod', { hasText: 'in a row' }).first().textContent()).toMatch(
        /^orders-777 .*5 failures in a row/,
      );
      expect(await page.evaluate<number>('document.documentElement.scrollHeight')).toBeLessThan(3 * 800);
      await section.locator('summary', { hasText: / more: / }).click();
      await section.getByText('orders-999 ').waitFor();
    },
  );
});

describe('evenkeel doctor --admin', () => {
  const doctor = async (url: string): Promise<string> =>
    (await runHere(['doctor', 'static:10.0.0.1:80', '--no-connect', '--admin', url])).stdout;

  it('reads the admin page, and says what is wrong with a page that is something else', async () => {
    await balancer();
    expect(await doctor(base)).toContain('evenkeel/register is not in use');
    base = await serve((_request, response) => response.end('{}'));
    expect(await doctor(base)).toContain('no admin page of evenkeel');
  });

  it('gives up on a page that has no end, and on one that stops in the middle', async () => {
    const part = Buffer.alloc(1024 * 1024, ' ');
    const endless = await serve((_request, response) => {
      const more = (): void => {
        while (!response.destroyed && response.write(part));
      };
      response.on('drain', more);
      more();
    });
    const stuck = await serve((_request, response) => void response.write('{"balancers": ['));
    const [tooLong, late] = await Promise.all([doctor(endless), doctor(stuck)]);
    // A machine that is too busy to read 64 MiB in 5 s gives up for that reason.
    expect(tooLong).toMatch(/longer than 64 MiB|within 5 s/);
    expect(late).toContain('no complete answer within 5 s');
  });

  it('passes no control sequence of a page on to the terminal', async () => {
    const unbalanced = [{ what: 'an \u001b[31magent\u009b2J\u202e', count: 1, remedy: 'none' }];
    base = await serve((_request, response) => response.end(JSON.stringify({ balancers: [], unbalanced })));
    const stdout = await doctor(base);
    expect(stdout).toContain('[31magent');
    expect(stdout).not.toMatch(/(?!\n)\p{Cc}|\u202e/u);
  });
});
