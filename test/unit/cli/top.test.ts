import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { parseCommandLine } from '../../../src/cli/command-line.js';
import { printTop, top } from '../../../src/cli/top.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { preferenceOrder } from '../../../src/picker/preference-order.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

it('accepts an address with and without a trailing slash', () => {
  for (const url of ['http://127.0.0.1:9901', 'http://127.0.0.1:9901/']) {
    expect(parseCommandLine(['top', url, '--once'])).toEqual({
      name: 'top',
      url: new URL('http://127.0.0.1:9901/'),
      once: true,
    });
  }
  for (const args of [['top'], ['top', 'orders'], ['top', 'ftp://a/'], ['top', 'http://a', 'http://b']]) {
    expect(() => parseCommandLine(args), args.join(' ')).toThrow('top needs');
  }
  expect(() => parseCommandLine(['doctor', 'orders.shop:80', '--once'])).toThrow('--once');
});

it('prints a line per pod, with rates since the previous line, and no control sequences', async () => {
  const fixture = new BalancerFixture();
  await fixture.publish({ address: '10.0.0.1', port: 80, name: 'orders-\u001b[31ma' }, '10.0.0.2');
  const look = (atMs: number) => ({ atMs, balancers: [{ id: 1, ...fixture.balancer.snapshot() }] });
  const before = look(0);
  for (let call = 0; call < 20; call++) fixture.balancer.pick()?.end(outcomes.success);
  const lines = printTop(look(2_000), before).split('\n');
  expect(lines[0]).toMatch(/^fake {2}ready, 0 waiting, 0 retries \(budget \d+\), 0 refused$/);
  expect(lines[1]).toBe('  2 ready');
  expect(lines[2]).toMatch(/^ {2}POD +STATE +CALLS\/S +IN FLIGHT +COST +FAILED +WHY FEWER CALLS$/);
  expect(lines[3]).toMatch(/^ {2}orders- \[31ma +ready +5\.0 +0 +1\.0× +0$/);
  await fixture.balancer.close();
});

it('fits a terminal, with pods that get no calls first', async () => {
  const fixture = new BalancerFixture();
  fixture.transport.connect = (
    (connect) => (endpoint, signal) =>
      endpoint.address === '10.0.0.77'
        ? Promise.reject(new Error(`connect ECONNREFUSED 10.0.0.77:80 ${'and so on '.repeat(20)}`))
        : connect.call(fixture.transport, endpoint, signal)
  )(fixture.transport.connect);
  await fixture.publish(...Array.from({ length: 100 }, (_, index) => `10.0.0.${index}`));
  const look = { atMs: 0, balancers: [{ id: 1, ...fixture.balancer.snapshot() }] };
  const lines = printTop(look, undefined, { rows: 24, columns: 80 }).split('\n');
  expect(lines.length).toBeLessThan(24);
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
  expect(lines[1]).toBe('  99 ready, 1 backoff');
  // A pod without a connection has no cost.
  expect(lines[3]).toMatch(/^ {2}10\.0\.0\.77:80 +backoff +– +0 +– +0 +no connection to 10/);
  expect(lines.at(-1)).toMatch(/^ {2}… and \d+ more: \d+ ready$/);
  await fixture.balancer.close();
});

it('shows the place of each pod, where the picker keeps an order', async () => {
  const fixture = new BalancerFixture({ picker: preferenceOrder() });
  await fixture.publish(...Array.from({ length: 6 }, (_, index) => `10.0.0.${index}`));
  const look = { atMs: 0, balancers: [{ id: 1, ...fixture.balancer.snapshot() }] };
  const lines = printTop(look, undefined).trimEnd().split('\n');
  expect(lines[2]).toMatch(/IN FLIGHT +PLACE +COST/);
  const places = lines.slice(3).map((line) => / ready +– +0 +(\d) +1\.0× +0$/.exec(line)?.[1]);
  expect(places.sort()).toEqual(['1', '2', '3', '4', '5', '6']);
  await fixture.balancer.close();
});

it('fits a terminal with --once too, and prints all pods if the output is not a terminal', async () => {
  const fixture = new BalancerFixture();
  await fixture.publish(...Array.from({ length: 100 }, (_, index) => `10.0.0.${index}`));
  const server = createServer((_request, response) =>
    response.end(JSON.stringify({ balancers: [{ id: 1, ...fixture.balancer.snapshot() }] })),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  const printed = async (size: { rows: number; columns: number } | undefined): Promise<string[]> => {
    let text = '';
    const write = (more: string): void => {
      text += more;
    };
    const clear = (): never => {
      throw new Error('what was on the terminal is gone');
    };
    expect(
      await top(
        { name: 'top', url, once: true },
        { write, clear, size: () => size, signal: new AbortController().signal },
      ),
    ).toBe(0);
    expect(text.endsWith('\n')).toBe(true);
    return text.trimEnd().split('\n');
  };
  const [cut, whole] = await Promise.all([printed({ rows: 24, columns: 60 }), printed(undefined)]);
  expect(cut.length).toBeLessThan(24);
  expect(Math.max(...cut.map(({ length }) => length))).toBeLessThanOrEqual(60);
  expect(whole).toHaveLength(103);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await fixture.balancer.close();
});
