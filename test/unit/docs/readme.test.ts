import { expect, it } from 'vitest';
import { textOf } from '../../support/docs-page.js';

const readme = textOf('README.md');

/** The cells of the first row of a table that begins with a name. */
const rowOf = (text: string, name: string): string[] =>
  text
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()))
    .find((cells) => cells[1] === name) ?? [];

it('the README quotes what is simulated of a fleet', () => {
  const page = textOf('docs/benchmarks-simulations.md');
  const [, , , stock, own] = rowOf(page, '20 × 30, 67 %');
  expect(readme).toContain(`**${own?.split(';')[0]} ms, and ${stock} ms through kube-proxy**`);
  for (const fleet of ['500 × 30, 67 %', '20 × 5, 67 %']) {
    const [, , , through, ours] = rowOf(page, fleet);
    const less = 1 - Number(ours) / Number(through);
    expect(less, fleet).toBeGreaterThan(0.03);
    expect(less, fleet).toBeLessThan(0.08);
  }
  expect(readme).toContain('with 500 clients or 5 pods some 5 % less');
  const alone = rowOf(page, 'one client of these');
  expect(readme).toContain(`for one client alone ${alone[2]} (${alone[3]?.replace('stock ', '')})`);
});

it('the README quotes what rolling updates and simulations cost', () => {
  const rolled = rowOf(textOf('docs/benchmarks-proofs.md'), '10 pods replaced three times, EndpointSlices, HTTP/1.1');
  expect(rolled.slice(3, 5)).toEqual(['0', '0']);
  expect(readme).toContain(`While 10 pods were replaced three times, 0 of ${rolled[2]} requests failed`);
  const even = rowOf(textOf('docs/benchmarks-simulations.md'), '20 × 30, over 10 s');
  expect(readme).toContain(
    `${even[2]} times the mean over 10 s (through kube-proxy ${even[3]?.replace('stock ', '')})`,
  );
});

it('the README quotes what the program with Node 26 found', () => {
  const lines = textOf('examples/http2-pins/README.md').split('\n');
  const stock = lines.findIndex((line) => line.startsWith('| **26.10** | **stock**'));
  const busiest = (line = '') => /([\d,]+)(?: \d+){4}/.exec(line)?.[1];
  expect(lines[stock + 1]).toContain('| evenkeel | HTTP/1.1 |');
  expect(readme).toContain(`**${busiest(lines[stock])} go to one**. With evenkeel ${busiest(lines[stock + 1])} do`);
});

it('the README compares evenkeel by the figures of the HTTP benchmark page', () => {
  const page = textOf('docs/benchmarks-http.md');
  /** The rows of a client in a part of the page, as cells. */
  const rowsOf = (part: string, name: string): string[][] =>
    part
      .split('\n')
      .map((line) => line.split('|').map((cell) => cell.trim()))
      .filter((cells) => cells[1] === name);
  const slow = page.slice(page.indexOf('**One of the pods is slow**'), page.indexOf('**One of the pods dies**'));
  const dies = page.slice(page.indexOf('**One of the pods dies**'), page.indexOf('**Rolling update**'));
  const failed = (name: string) => rowsOf(dies, name)[0]?.[3];
  const slowP99 = (name: string) => Math.round(Number(rowsOf(slow, name)[0]?.[6]));
  /** How many times evenkeel's figure the other one is. The page says it the other way around. */
  const times = (name: string, of: string, digits = 2) => {
    const row = rowsOf(page, `evenkeel : ${name}`).find((cells) => cells[2] === of);
    return (1 / Number.parseFloat(row?.[4] ?? '')).toFixed(digits);
  };
  const range = (...figures: string[]) => [...new Set(figures)].sort().join(' to ');

  const [dns, balanced] = ['undici dns interceptor', 'undici BalancedPool'] as const;
  const pools = ['undici Pool, balanced per connection', 'undici RoundRobinPool, balanced per connection'];
  const proxies = ['undici Pool, through HAProxy', 'undici Pool, through nginx'];
  expect(readme).toContain(
    `${failed(dns)} of 1,600 fail with undici's dns interceptor, and ${failed('evenkeel')} with evenkeel`,
  );
  expect(readme).toContain(`| ${times(dns, 'requests/s')} × evenkeel's requests/s; ${failed(dns)} of 1,600 requests`);
  for (const name of [balanced, ...pools]) expect(Math.abs(Number(times(name, 'requests/s')) - 1)).toBeLessThan(0.06);
  expect(readme).toContain(
    `| as many requests/s; ${failed(balanced)} of 1,600 failed, p99 with one slow pod ${slowP99(balanced)} ms (evenkeel: ${slowP99('evenkeel')})`,
  );
  expect(pools.map(failed)).toEqual(['0', '0']);
  expect(readme).toContain('| as many requests/s, and none failed; with 32');
  const [requests, p99] = [
    range(...proxies.map((name) => times(name, 'requests/s'))),
    range(...proxies.map((name) => times(name, 'p99', 1))),
  ];
  expect(readme).toContain(`| ${requests} × the requests/s, p99 ${p99} × (HAProxy`);
});

it('the README compares evenkeel with round_robin of grpc-js by the figures of the gRPC benchmark page', () => {
  const page = textOf('docs/benchmarks-http.md');
  const times = (ours: string): string => {
    const [, ratio] =
      new RegExp(
        `${ours.replace(/[()]/g, '\\$&')} : grpc-js round_robin +\\| requests/s +\\| +≥ [\\d.]+ \\| ([\\d.]+) `,
      ).exec(page) ?? [];
    return (1 / Number(ratio)).toFixed(2);
  };
  expect(Math.abs(Number(times('evenkeel, as it comes')) - 1)).toBeLessThan(0.06);
  expect(readme).toContain(`| as many calls/s, ${times('evenkeel, roundRobin()')} × those of \`roundRobin()\``);
});

it('the README shows the problem first, then the figures, and says how to get the package', () => {
  const places = ['playground-grpc.png', 'Requests wait less', 'not on npm yet', '```js', '## With your client'].map(
    (text) => readme.indexOf(text),
  );
  expect(places).not.toContain(-1);
  expect([...places].sort((a, b) => a - b)).toEqual(places);
});

it('the README has at most 900 words', () => {
  expect(readme.split(/\s+/).length).toBeLessThanOrEqual(901);
});
