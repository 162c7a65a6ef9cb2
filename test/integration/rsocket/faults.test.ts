import { fileURLToPath } from 'node:url';
import { FakeClock, FakeResolver } from 'evenkeel/testing';
import { describe, expect, it } from 'vitest';
import type { RSocketOptions } from '../../../examples/rsocket/adapter/index.js';
import { closedAfterEach } from '../../support/opened.js';
import {
  ask,
  connected,
  Heard,
  kinds,
  payload,
  running,
  startRSocket,
  states,
} from '../../support/pods/rsocket-calls.js';
import { RSocketPod } from '../../support/pods/rsocket-pods.js';
import { buildPackage, expectToEnd } from '../../support/programs/programs.js';
import { until } from '../../support/until.js';

const open = closedAfterEach();

const start = (count: number, options?: RSocketOptions) => startRSocket(open, count, options);

describe('a pod that leaves', () => {
  it('gets no new request, and its streams run to their end, however long they take', async () => {
    const resolver = new FakeResolver();
    const clock = new FakeClock();
    const setup = { keepAlive: 10 ** 8, lifetime: 10 ** 9 };
    const { rsocket, pod, other, attempts } = await start(2, { resolver, clock, setup });
    resolver.update(pod.endpoint, other.endpoint);
    await clock.advanceAsync(1_000);
    await connected(rsocket, 2);
    const streams = [new Heard(), new Heard()];
    const sends = streams.map((heard) => rsocket.requestStream(payload('tick'), 1, heard));
    await until('both pods have one', () => pod.stats.held === 1 && other.stats.held === 1);
    resolver.update(other.endpoint);
    await clock.advanceAsync(1_000);
    expect(states(rsocket)).toContain('draining');
    for (let round = 0; round < 20; round++) expect(await ask(rsocket, 'name')).toBe('b');
    expect(pod.stats.requests.requestResponse).toBeUndefined();
    await clock.advanceAsync(3_600_000);
    for (const send of sends) send.request(3);
    await until('the streams went on', () => streams.every(({ data }) => data.length === 4));
    expect(pod.stats.open).toBe(1);
    await Promise.all([pod.command('release'), other.command('release')]);
    for (const stream of streams) await stream.ended();
    await until('its connection is closed', () => pod.stats.open === 0);
    expect(attempts.every(({ outcome }) => outcome.kind === 'success')).toBe(true);
    expect(running(rsocket)).toBe(0);
  });

  it('by CONNECTION_CLOSE gets no new request on that connection, and its streams continue', async () => {
    const { rsocket, pod, attempts } = await start(2);
    const streams = [new Heard(), new Heard()];
    const sends = streams.map((heard) => rsocket.requestStream(payload('tick'), 1, heard));
    await until('the pod has one', () => pod.stats.held === 1);
    await pod.command('leave');
    // It leaves by its own word, and nobody else's: a second connection takes its place.
    await until('it has another connection', () => pod.stats.open === 2);
    await connected(rsocket, 2);
    for (const send of sends) send.request(2);
    await until('the streams went on', () => streams.every(({ data }) => data.length === 3));
    await pod.command('release');
    await until('the old connection is closed', () => pod.stats.open === 1);
    expect(streams.filter(({ completed }) => completed)).toHaveLength(1);
    for (let round = 0; round < 4; round++) await ask(rsocket, 'name');
    expect(pod.stats.requests.requestResponse).toBe(2);
    expect(attempts.every(({ outcome }) => outcome.kind === 'success')).toBe(true);
  });

  it('does not end a stream on another pod, even when all others are replaced', async () => {
    const resolver = new FakeResolver();
    const { rsocket, pods, pod } = await start(4, { resolver });
    resolver.update(pod.endpoint);
    await connected(rsocket, 1);
    const stream = new Heard();
    const sends = rsocket.requestStream(payload('tick'), 1, stream);
    for (const next of [...pods.slice(1), ...pods.slice(1)]) {
      resolver.update(next.endpoint);
      await until('the next has taken its place', async () => (await ask(rsocket, 'name')) === next.name);
      sends.request(1);
    }
    await until('it went on', () => stream.data.length === 7);
    await pod.command('release');
    expect((await stream.ended()).every((data) => data.startsWith('a '))).toBe(true);
  });
});

describe('a pod that failed and is on probation', () => {
  it('is restored by the first payload of a stream, however long the stream lasts', async () => {
    const resolver = new FakeResolver();
    const clock = new FakeClock();
    const setup = { keepAlive: 10 ** 8, lifetime: 10 ** 9 };
    const { rsocket, pod, other } = await start(2, { resolver, clock, setup });
    resolver.update(pod.endpoint, other.endpoint);
    await clock.advanceAsync(1_000);
    await connected(rsocket, 2);
    const isSuspect = () => rsocket.balancer.snapshot().endpoints.some(({ suspect }) => suspect);
    for (let round = 0; round < 40 && !isSuspect(); round++) {
      if ((await ask(rsocket, 'name')) === other.name) await ask(rsocket, 'cancel').catch(() => {});
      await clock.advanceAsync(10);
    }
    expect(isSuspect()).toBe(true);
    await clock.advanceAsync(2_000);
    // One of these is its first call on probation.
    const streams = [new Heard(), new Heard(), new Heard(), new Heard()];
    for (const heard of streams.slice(0, 2)) rsocket.requestStream(payload('tick'), 1, heard);
    await until('it has one', () => pod.stats.held === 1);
    await until('both said something', () => streams.slice(0, 2).every(({ data }) => data.length === 1));
    await clock.advanceAsync(100);
    for (const heard of streams.slice(2)) rsocket.requestStream(payload('tick'), 1, heard);
    await until('it has another', () => pod.stats.held === 2);
  });
});

describe('a pod that is killed', () => {
  it('fails its running requests; those that may be repeated are answered by another pod', async () => {
    const resolver = new FakeResolver();
    const { rsocket, pod, other, attempts } = await start(2, { resolver });
    resolver.update(pod.endpoint);
    await connected(rsocket, 1);
    const [repeated, once, stream, channel] = [new Heard(), new Heard(), new Heard(), new Heard()];
    rsocket.requestResponse(payload('hang may be repeated'), repeated, { idempotent: true });
    rsocket.requestResponse(payload('hang'), once);
    rsocket.requestStream(payload('tick'), 1, stream);
    rsocket.requestChannel(payload('1'), 1, false, channel);
    await until('the pod has all', () => pod.stats.data.length === 4);
    resolver.update(pod.endpoint, other.endpoint);
    await connected(rsocket, 2);
    await pod.kill();
    for (const heard of [once, stream, channel]) await expect(heard.ended()).rejects.toThrow('Closed');
    await until('the other has it', () => other.stats.data.length === 1);
    expect(other.stats.data).toEqual(['hang may be repeated']);
    await other.command('release');
    expect(await repeated.ended()).toEqual(['b']);
    expect(kinds(attempts).map(String).sort()).toEqual([
      'failure,reset,false',
      'failure,reset,false',
      'failure,reset,false',
      'failure,reset,true',
      'success,,false',
    ]);
    for (let round = 0; round < 10; round++) expect(await ask(rsocket, 'name')).toBe('b');
  });

  it('gets no request while its connection ends, and no request is lost', async () => {
    const { rsocket, pod } = await start(2);
    const answers: Promise<string>[] = [];
    const heard = Array.from({ length: 10 }, () => {
      const one = new Heard();
      // Who hears of the end begins the next at once.
      one.onError = (error) => {
        one.error = error;
        const answer = ask(rsocket, 'name');
        // The others end with the test.
        answer.catch(() => {});
        answers.push(answer);
      };
      return one;
    });
    for (const one of heard) rsocket.requestResponse(payload('hang'), one);
    await until('the pod has its half', () => pod.stats.held === 5);
    await pod.command('reset');
    await until('its half failed', () => answers.length === 5);
    for (const answer of answers) expect(['a', 'b']).toContain(await answer);
    expect(running(rsocket)).toBe(5);
  });
});

describe('keep-alive', () => {
  it('ends the connection to a frozen pod, and its running requests', async () => {
    const clock = new FakeClock();
    const { rsocket, pod, attempts } = await start(1, { clock, setup: { keepAlive: 1_000, lifetime: 3_000 } });
    // As long as it answers, the connection stays.
    for (let round = 0; round < 10; round++) {
      clock.advance(1_000);
      await ask(rsocket, 'name');
    }
    expect(states(rsocket)).toEqual(['ready']);
    const heard = new Heard();
    rsocket.requestResponse(payload('hang'), heard);
    await until('the pod has it', () => pod.stats.held === 1);
    pod.freeze();
    await clock.advanceAsync(1_000);
    await clock.advanceAsync(1_000);
    await clock.advanceAsync(1_000);
    await expect(heard.ended()).rejects.toThrow('Closed');
    await until('it is lost', () => states(rsocket)[0] !== 'ready');
    expect(kinds(attempts).at(-1)).toEqual(['failure', 'reset', false]);
    expect(rsocket.balancer.snapshot().endpoints[0]?.lastError).toContain('no keep-alive frame for 3000 ms');
    pod.thaw();
  });
});

describe('closing an RSocket', () => {
  it('lets running requests finish, and refuses new ones', async () => {
    const { rsocket, pod } = await start(1);
    const ended: unknown[] = [];
    rsocket.onClose((error) => ended.push(error));
    const stream = new Heard();
    rsocket.requestStream(payload('tick'), 1, stream);
    await until('the pod has it', () => pod.stats.held === 1);
    const closing = rsocket.close();
    await expect(ask(rsocket, 'name')).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    expect(ended).toEqual([]);
    await pod.command('release');
    await stream.ended();
    await closing;
    expect(ended).toEqual([undefined]);
    rsocket.onClose(() => ended.push('again'));
    await until('it was told', () => ended.length === 2);
    await until('the connection is closed', () => pod.stats.open === 0);
  });

  it('cuts requests that have not ended after 30 s', async () => {
    const clock = new FakeClock();
    const { rsocket, pod } = await start(1, { clock });
    const stream = new Heard();
    rsocket.requestStream(payload('tick'), 1, stream);
    await until('the pod has it', () => pod.stats.held === 1);
    const closing = rsocket.close();
    clock.advance(30_000);
    await expect(stream.ended()).rejects.toThrow('Closed');
    await closing;
  });

  it('with an error cuts running requests', async () => {
    const { rsocket, pod } = await start(1);
    const stream = new Heard();
    rsocket.requestStream(payload('tick'), 1, stream);
    await until('the pod has it', () => pod.stats.held === 1);
    await rsocket.close(new Error('no more'));
    await expect(stream.ended()).rejects.toThrow('Closed');
  });
});

it('a receiver that throws ends its own request: the connection and the other requests go on', async () => {
  const { rsocket, pod } = await start(1);
  const other = new Heard();
  const sends = rsocket.requestStream(payload('tick'), 1, other);
  const thrown: unknown[] = [];
  const listeners = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  process.on('uncaughtException', (error) => thrown.push(error));
  try {
    const bad = new Heard();
    bad.onNext = () => {
      throw new Error('a bug of the application');
    };
    rsocket.requestStream(payload('tick'), 1, bad);
    await until('it was thrown', () => thrown.length > 0);
  } finally {
    process.removeAllListeners('uncaughtException');
    for (const listener of listeners) process.on('uncaughtException', listener);
  }
  expect(String(thrown[0])).toContain('a bug of the application');
  await until('the pod has one stream left', () => pod.stats.held === 1);
  sends.request(1);
  await until('the other goes on', () => other.data.length === 2);
  expect(running(rsocket)).toBe(1);
});

it.each([
  ['that sent requests', 'requests', ['1', '1', '1', '4', 'done']],
  ['that sent none', 'none', ['done']],
])('a process %s and closed nothing ends by itself', async (_what, how, lines) => {
  await buildPackage();
  const pods = await RSocketPod.startAll(2);
  open.push(...pods);
  const program = fileURLToPath(new URL('../../support/pods/idle-rsocket-client.mjs', import.meta.url));
  await expectToEnd(
    [program, how],
    pods.map(({ endpoint }) => endpoint),
    lines,
  );
});
