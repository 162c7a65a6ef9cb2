import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseCommandLine } from '../../../src/cli/command-line.js';
import { explain } from '../../../src/cli/explain.js';
import { replay } from '../../../src/cli/replay.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { inFlight } from '../../../src/load/in-flight.js';
import { relativeLatency } from '../../../src/load/relative-latency.js';
import { p2c } from '../../../src/picker/p2c.js';
import { preferenceOrder } from '../../../src/picker/preference-order.js';
import { flightRecorder } from '../../../src/recorder/flight-recorder.js';
import { readDump } from '../../../src/recorder/read-dump.js';
import { isoOf } from '../../../src/runtime/wall-clock.js';
import { outlierEjection } from '../../../src/stage/outlier-ejection.js';
import { panic } from '../../../src/stage/panic.js';
import { zone } from '../../../src/stage/zone.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

let folder: string;
let file: string;
const calls = 30;

/** 30 calls of 3 ms on two pods, and a balancer that is not called. */
beforeAll(async () => {
  const recorder = flightRecorder();
  const options = { recorder, picker: p2c(), load: inFlight() };
  const orders = new BalancerFixture(options);
  const other = new BalancerFixture(options);
  await other.publish('10.0.0.3');
  await orders.publish(
    { address: '10.0.0.1', port: 80, name: 'orders-a' },
    { address: '10.0.0.2', port: 80, name: 'orders-b' },
  );
  for (let call = 0; call < calls; call++) {
    const lease = orders.balancer.pick();
    orders.clock.advance(3);
    lease?.end(call === 20 ? outcomes.timeout : outcomes.success);
  }
  folder = mkdtempSync(join(tmpdir(), 'evenkeel-recording-'));
  file = join(folder, 'dump.bin');
  writeFileSync(file, recorder.dump());
  await orders.balancer.close();
  await other.balancer.close();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function said(...args: string[]): Promise<{ readonly code: number; readonly text: string }> {
  const command = parseCommandLine(args);
  let text = '';
  const write = (more: string): void => {
    text += more;
  };
  if (command.name === 'explain') return { code: explain(command, write), text };
  if (command.name === 'replay') return { code: await replay(command, write), text };
  throw new Error(`${command.name} is neither`);
}

describe('evenkeel explain', () => {
  it('lists the last calls, after a summary', async () => {
    const { code, text } = await said('explain', file);
    expect(code).toBe(0);
    expect(text).toMatch(/^fake: 30 calls in 0\.1 s, /);
    expect(text).toContain('picker p2c, load inFlight');
    expect(text).toContain('of 2 balancers (--balancer): 1 fake, 2 fake');
    const rows = text.split('\n').filter((line) => /^ {2}\d+ /.test(line));
    expect(rows).toHaveLength(20);
    expect(rows.at(-1)).toMatch(/^ {2}30 .*orders-[ab].*success after 3\.0 ms$/);
    expect(text).toMatch(/ 21 .*failure \(timeout\) after 3\.0 ms/);
  });

  it('says why a call went to its pod', async () => {
    const { code, text } = await said('explain', file, '--call', '21');
    expect(code).toBe(0);
    expect(text).toMatch(/^Call 21 of fake went to orders-[ab] \(10\.0\.0\.[12]:80\) at /);
    expect(text).toContain('had 2 endpoints; the picker could choose from 2');
    expect(text).toContain('p2c looked at all 2');
    expect(text).toContain('→ orders-');
    expect(text).toContain('It ended after 3.0 ms: failure (timeout).');
  });

  it('lists the calls to one pod, and those from a given time on', async () => {
    const ofOne = await said('explain', file, '--pod', 'orders-a');
    expect(ofOne.text).not.toContain('orders-b');
    const { text } = await said('explain', file);
    const time = / 25 +([\d:.]+)/.exec(text)?.[1] as string;
    const later = await said('explain', file, '--at', time);
    expect(later.text.split('\n').filter((line) => /^ {2}\d+ /.test(line))).toHaveLength(6);
  });

  it('says why a pod got no call', async () => {
    const recorder = flightRecorder();
    const fixture = new BalancerFixture({
      recorder,
      picker: p2c(),
      load: inFlight(),
      stages: [outlierEjection(), zone({ zone: 'a', maxLoadRatio: Number.POSITIVE_INFINITY }), panic()],
    });
    const { transport, clock, balancer } = fixture;
    transport.connect = (
      (connect) => (endpoint, signal) =>
        endpoint.name === 'orders-refusing'
          ? Promise.reject(new Error('connect ECONNREFUSED'))
          : connect.call(transport, endpoint, signal)
    )(transport.connect);
    const pod = (name: string, last: number, zone = 'a') => ({ address: `10.0.0.${last}`, port: 80, name, zone });
    const staying = [
      pod('orders-a', 1),
      pod('orders-failing', 2),
      pod('orders-refusing', 3),
      pod('orders-far', 4, 'b'),
      pod('orders-b', 5),
      pod('orders-c', 6),
    ];
    await fixture.publish(...staying, pod('orders-left', 7));
    const goneAt = clock.now() + 10;
    clock.advance(10);
    await fixture.publish(...staying);
    for (let call = 0; call < 60; call++) {
      const lease = balancer.pick();
      clock.advance(3);
      lease?.end(lease.endpoint.name === 'orders-failing' ? outcomes.reset : outcomes.success);
      await settle();
    }
    const dumped = recorder.dump();
    const path = join(folder, 'pods.bin');
    writeFileSync(path, dumped);
    const of = async (name: string): Promise<string> => (await said('explain', path, '--pod', name)).text;
    expect(await of('orders-far')).toMatch(
      /no such call\n\nAt .* had 6 endpoints; the picker could choose from 3\.\n {2}orders-far .* was out: by zone\n {4}0 calls on it in the recording, 0 in flight\n$/,
    );
    expect(await of('orders-refusing')).toMatch(/orders-refusing .* was out: not connected \(backoff\)/);
    expect(await of('orders-failing')).toMatch(
      /orders-failing .* was out: ejected for .*\n {4}5 calls on it in the recording, 0 in flight, failure \(reset\) after 3\.0 ms, \d+(\.\d)? ms before/,
    );
    expect(await of('orders-b')).toMatch(
      /orders-b .* was one of the 3 the picker could choose\n {4}\d+ calls on it in the recording, 0 in flight, took 3\.0 ms, /,
    );
    expect(await of('orders-none')).toContain('No endpoint of this name was in the set at any time in the recording.');
    const { madeAtMs, balancers } = readDump(dumped);
    const time = (ms: number): string =>
      isoOf(madeAtMs - (balancers[0]?.nowMs as number) + ms)?.slice(11, 23) as string;
    expect(await of('orders-left')).toContain(`was no longer in the set; it was last at ${time(goneAt)}`);
    const early = await said('explain', path, '--pod', 'orders-failing', '--at', time(goneAt + 1));
    expect(early.text).toMatch(/orders-failing .* was one of the 4 the picker could choose\n {4}0 calls on it in/);
    const late = await said(
      'explain',
      path,
      '--pod',
      'orders-b',
      '--at',
      time((balancers[0]?.nowMs as number) + 60_000),
    );
    expect(late.text).toContain(`At ${time(balancers[0]?.nowMs as number)} UTC`);
    await balancer.close();
  });

  it('shows the last measured latency and its age beside the one used in the load', async () => {
    const recorder = flightRecorder();
    const fixture = new BalancerFixture({ recorder, picker: p2c(), load: relativeLatency() });
    const { balancer, clock } = fixture;
    await fixture.publish('10.0.0.1', '10.0.0.2');
    for (let call = 0; call < 60; call++) {
      const lease = balancer.pick();
      clock.advance(lease?.endpoint.address === '10.0.0.2' ? 400 : 4);
      lease?.end(outcomes.success);
    }
    clock.advance(30_000);
    balancer.pick()?.end(outcomes.success);
    const path = join(folder, 'slow.bin');
    writeFileSync(path, recorder.dump());
    const { text } = await said('explain', path, '--call', '61');
    expect(text).toMatch(/10\.0\.0\.2:80 .*took 400 ms, \d\d\.\d s before +counts as \d/);
    await balancer.close();
  });

  it.each([
    [['--call', '31'], 'the recording has no call 31'],
    [['--balancer', 'carts'], 'no balancer is called "carts"; there are fake, fake'],
    [['--at', 'noon'], '--at needs a time such as 12:03:04.5, got "noon"'],
  ])('refuses %j', async (args, message) => {
    await expect(said('explain', file, ...args)).rejects.toThrow(message);
  });

  it('refuses a file that is not a recording', async () => {
    await expect(said('explain', join(folder, 'none.bin'))).rejects.toThrow('cannot read');
    writeFileSync(join(folder, 'other.bin'), 'hello');
    await expect(said('explain', join(folder, 'other.bin'))).rejects.toMatchObject({ code: 'EVENKEEL_RECORDING' });
  });
});

describe('a recording of the default picker', () => {
  it('has its order: explain names the places, and replay makes the same picks across parts', async () => {
    const recorder = flightRecorder({ seconds: 3_600 });
    const rng = seededRng(3);
    const fixture = new BalancerFixture({ recorder, rng, picker: preferenceOrder() });
    await fixture.publish(...Array.from({ length: 6 }, (_, index) => `10.0.1.${index + 1}`));
    for (let call = 0; call < 3_000; call++) {
      const leases = Array.from({ length: 1 + (call % 3) }, () => fixture.balancer.pick());
      for (const lease of leases) {
        fixture.clock.advance(5 + 10 * rng.next());
        lease?.end(outcomes.success);
      }
    }
    const dump = join(folder, 'order.bin');
    writeFileSync(dump, recorder.dump());
    await fixture.balancer.close();
    const replayed = await said('replay', dump);
    expect(replayed.text).toMatch(/Replayed with the same picker and load, (\d+) of \1 picks are the same\./);
    const { text } = await said('explain', dump, '--call', '6000');
    expect(text).toContain("preferenceOrder keeps all 6 in an order of this client's own");
    expect(text).toMatch(/→ 10\.0\.1\.\d:80 +place [1-6] +[012] in flight/);
    expect(text).toContain('was the first of the order without a call of this client.');
    const ofAll = (await said('explain', dump, '--pod', '10.0.1.')).text;
    const places = [...ofAll.matchAll(/was in place (\d) of 6 in this client's order/g)].map(([, place]) => place);
    expect(places.sort()).toEqual(['1', '2', '3', '4', '5', '6']);
  });
});

describe('evenkeel replay', () => {
  it('makes the same picks again', async () => {
    const { code, text } = await said('replay', file);
    expect([code, text.includes('Replayed with the same picker and load, 30 of 30 picks are the same.')]).toEqual([
      0,
      true,
    ]);
  });
});
