import { EventEmitter } from 'node:events';
import { Readable } from 'node:stream';
import { type Outcome, type Resolver, staticEndpoints } from 'evenkeel';
import { createDispatcher, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import * as undici from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { HangingEndpoint, refusingEndpoint } from '../../support/pods/hanging-endpoint.js';
import { Pod, Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';

const origin = 'http://orders.shop:8080';
/** Knows nothing, for ever. */
const silent: Resolver = { name: 'silent', watch: () => ({ refresh() {}, close() {} }) };

const clients: Record<string, (dispatcher: ServiceDispatcher, path: string, signal: AbortSignal) => Promise<unknown>> =
  {
    'undici.request': async (dispatcher, path, signal) =>
      (await undici.request(`${origin}${path}`, { dispatcher, signal })).body.text(),
    'undici.fetch': async (dispatcher, path, signal) =>
      (await undici.fetch(`${origin}${path}`, { dispatcher, signal })).text(),
    'global fetch': async (dispatcher, path, signal) =>
      (await fetch(`${origin}${path}`, { dispatcher, signal } as unknown as RequestInit)).text(),
  };

const opened: ServiceDispatcher[] = [];
const open = (options: DispatcherOptions): ServiceDispatcher => {
  const dispatcher = createDispatcher(origin, options);
  opened.push(dispatcher);
  return dispatcher;
};
const running = (dispatcher: ServiceDispatcher): number => {
  const { waiting, endpoints } = dispatcher.balancer.snapshot();
  return endpoints.reduce((sum, { inFlight }) => sum + inFlight, waiting);
};

let pods: Pods;
beforeEach(async () => {
  pods = await Pods.start(1);
});
afterEach(async () => {
  for (const dispatcher of opened.splice(0)) await dispatcher.destroy();
  await pods[Symbol.asyncDispose]();
});

describe.each(Object.entries(clients))('%s: the caller aborts', (_name, send) => {
  it('before it begins', async () => {
    const dispatcher = open({ resolver: staticEndpoints(pods.endpoints) });
    await expect(send(dispatcher, '/', AbortSignal.abort())).rejects.toMatchObject({ name: 'AbortError' });
    expect(running(dispatcher)).toBe(0);
    expect(await pods.total('requests')).toBe(0);
  });

  it('while it waits for an endpoint', async () => {
    const dispatcher = open({ resolver: silent, waitTimeoutMs: 60_000 });
    const caller = new AbortController();
    const answer = send(dispatcher, '/', caller.signal);
    await until('the call waits', () => running(dispatcher) === 1);
    caller.abort();
    await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
    expect(running(dispatcher)).toBe(0);
  });

  it('while its socket opens', async () => {
    const pod = await Pod.start({ backlog: 1 });
    const dispatcher = open({ resolver: staticEndpoints([pod.endpoint]), pool: { connectTimeoutMs: 60_000 } });
    // The first request takes the socket that was opened ahead. The second needs one more, which hangs.
    const first = dispatcher.request({ path: '/hang', method: 'GET' }).catch(() => {});
    await until('the pod has the first request', async () => (await pod.stats()).requests === 1);
    await using _hanging = await HangingEndpoint.seize(pod);
    const caller = new AbortController();
    const answer = send(dispatcher, '/', caller.signal);
    await until('the second is on its way', () => running(dispatcher) === 2);
    expect(dispatcher.balancer.snapshot().waiting).toBe(0);
    caller.abort();
    await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
    await dispatcher.destroy();
    await first;
    expect(running(dispatcher)).toBe(0);
  });

  it('while its socket cannot be opened: the pod was not reached, whatever the caller does', async () => {
    const pod = await Pod.start({ backlog: 1 });
    const ended: Outcome[] = [];
    const dispatcher = open({
      resolver: staticEndpoints([pod.endpoint]),
      pool: { connectTimeoutMs: 1_000 },
      observer: { attemptEnded: ({ outcome }) => ended.push(outcome) },
    });
    const first = dispatcher.request({ path: '/hang', method: 'GET' }).catch(() => {});
    await until('the pod has the first request', async () => (await pod.stats()).requests === 1);
    await using _hanging = await HangingEndpoint.seize(pod);
    const caller = new AbortController();
    const answer = send(dispatcher, '/', caller.signal);
    await until('the second is on its way', () => running(dispatcher) === 2);
    caller.abort();
    await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
    await until('its socket was given up', () => ended.length > 0);
    // undici 7 tells when the socket has failed, undici 8 at once: then nothing is known of the pod.
    expect(ended).toEqual([expect.objectContaining({ kind: 'not-started' })]);
    await dispatcher.destroy();
    await first;
  });

  it('before the response head', async () => {
    const dispatcher = open({ resolver: staticEndpoints(pods.endpoints) });
    const caller = new AbortController();
    const answer = send(dispatcher, '/hang', caller.signal);
    await until('the pod has the request', async () => (await pods.total('requests')) === 1);
    caller.abort();
    await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
    await until('the pod saw the client go', async () => (await pods.total('aborted')) === 1);
    expect(running(dispatcher)).toBe(0);
    expect(await pods.total('requests')).toBe(1);
  });

  it('in the middle of the body', async () => {
    const dispatcher = open({ resolver: staticEndpoints(pods.endpoints) });
    const caller = new AbortController();
    const answer = send(dispatcher, '/hang-body', caller.signal);
    await until('the pod has the request', async () => (await pods.total('requests')) === 1);
    caller.abort();
    await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
    await until('the pod saw the client go', async () => (await pods.total('aborted')) === 1);
    await until('nothing runs', () => running(dispatcher) === 0);
  });

  it('between two attempts, while it waits for the second', async () => {
    // The first pod loses its listener after it was found ready; the second has room for one call, and is busy.
    const [dying] = (await Pods.start(1)).all;
    const dispatcher = open({
      resolver: staticEndpoints([dying!.endpoint, ...pods.endpoints]),
      connections: 1,
      waitTimeoutMs: 60_000,
    });
    await connected(dispatcher.balancer, 2);
    const busy = [
      dispatcher.request({ path: '/hang', method: 'GET' }).catch(() => {}),
      dispatcher.request({ path: '/hang', method: 'GET' }).catch(() => {}),
    ];
    await until('both are busy', () => running(dispatcher) === 2);
    const caller = new AbortController();
    const answer = send(dispatcher, '/', caller.signal);
    await dying!.kill();
    await until('two calls wait for the one pod that is left', () => dispatcher.balancer.snapshot().waiting === 2);
    caller.abort();
    await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
    expect(dispatcher.balancer.snapshot().waiting).toBe(1);
    await dispatcher.destroy();
    await Promise.all(busy);
  });
});

describe('dispatch, as undici calls it', () => {
  it('reports the start to the handler once, before anything else, whatever the number of attempts', async () => {
    const dispatcher = open({ resolver: staticEndpoints([await refusingEndpoint()]), waitTimeoutMs: 50 });
    const heard: string[] = [];
    const ended = new EventEmitter();
    const taken = dispatcher.dispatch(
      { origin, path: '/', method: 'GET' },
      {
        onConnect: () => heard.push('start'),
        onHeaders: () => true,
        onData: () => true,
        onComplete: () => heard.push('complete'),
        onError: (error) => {
          heard.push((error as Error & { code: string }).code);
          ended.emit('end');
        },
      },
    );
    expect(taken).toBe(false);
    expect(heard).toEqual(['start']);
    await new Promise((resolve) => ended.once('end', resolve));
    expect(heard).toEqual(['start', 'EVENKEEL_NOT_READY']);
  });

  it('emits drain when nothing waits any more', async () => {
    const dispatcher = open({ resolver: staticEndpoints(pods.endpoints) });
    const drained = new Promise((resolve) => dispatcher.once('drain', resolve));
    const answer = dispatcher.request({ path: '/', method: 'GET' });
    await drained;
    expect((await answer).statusCode).toBe(200);
  });

  it('answers the call although a listener of drain throws', async () => {
    const dispatcher = open({ resolver: staticEndpoints(pods.endpoints) });
    dispatcher.on('drain', () => {
      throw new Error('of the listener');
    });
    const thrown = new Promise((resolve) => dispatcher.once('error' as 'drain', resolve));
    const { statusCode, body } = await dispatcher.request({ path: '/', method: 'GET' });
    await body.dump();
    expect(statusCode).toBe(200);
    expect(await thrown).toMatchObject({ message: 'of the listener' });
    await until('it has ended', () => running(dispatcher) === 0);
  });

  it('ends the call when its body fails while the call waits', async () => {
    const dispatcher = open({ resolver: silent, waitTimeoutMs: 60_000 });
    const body = new Readable({ read() {} });
    const answer = dispatcher.request({ path: '/', method: 'POST', body });
    await until('the call waits', () => running(dispatcher) === 1);
    body.destroy(new Error('the disk is gone'));
    await expect(answer).rejects.toThrow('the disk is gone');
    expect(running(dispatcher)).toBe(0);
    expect(body.listenerCount('error')).toBeLessThanOrEqual(1);
  });
});
