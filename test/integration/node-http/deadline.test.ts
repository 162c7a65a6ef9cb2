import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import axios from 'axios';
import { type ObserverEvents, roundRobin, staticEndpoints, without } from 'evenkeel';
import { type AgentOptions, createAgent, type HttpServiceAgent } from 'evenkeel/node-http';
import { FakeClock, FakeResolver } from 'evenkeel/testing';
import got from 'got';
import fetch from 'node-fetch';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { connected } from '../../support/fixtures/connected.js';
import { HangingEndpoint } from '../../support/pods/hanging-endpoint.js';
import { Pod, Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { codeOf, Opened, running, send } from './support/request.js';

const origin = 'http://orders.shop:8080';

let pods: Pods;
const opened = new Opened();
let attempts: ObserverEvents['attemptEnded'][] = [];

beforeAll(async () => {
  pods = await Pods.start(2);
});
afterAll(() => pods[Symbol.asyncDispose]());
beforeEach(() => {
  attempts = [];
});
afterEach(() => opened.destroyAll());

/** No verdicts: which pod is tried must not depend on what happened before. */
async function open(options: AgentOptions, count = 2): Promise<HttpServiceAgent> {
  const agent = opened.add(
    createAgent(origin, {
      resolver: staticEndpoints(pods.endpoints),
      stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
      picker: roundRobin(),
      observer: { attemptEnded: (attempt) => attempts.push(attempt) },
      ...options,
    }),
  );
  if (count > 0) await connected(agent.balancer, count);
  return agent;
}
const missed = (...parts: string[]): unknown =>
  expect.objectContaining({
    code: 'EVENKEEL_DEADLINE',
    message: expect.stringMatching(new RegExp(parts.map((part) => part.replaceAll('.', '\\.')).join('.*'))),
  });

describe('the deadline of a request over node:http', () => {
  it.each(['GET', 'POST'])('%s: ends the wait for a response, and counts as a timeout of the pod', async (method) => {
    const clock = new FakeClock();
    const agent = await open({ deadlineMs: 200, clock });
    const body = method === 'POST' ? { body: 'x' } : {};
    const before = await pods.total('requests');
    const asked = send(agent, `${origin}/hang`, { method, ...body });
    const failed = expect(asked).rejects.toEqual(missed(origin, method, '200 ms', 'no answer from 127.0.0.1:'));
    await until('a pod has it', async () => (await pods.total('requests')) > before);
    await clock.advanceAsync(200);
    await failed;
    await until('nothing runs', () => running(agent) === 0);
    expect(attempts.map(({ outcome }) => outcome)).toEqual([{ kind: 'failure', cause: 'timeout' }]);
  });

  it('names the endpoint in the error', async () => {
    const agent = await open({ deadlineMs: 200, resolver: staticEndpoints([pods.at(0).endpoint]) }, 1);
    const error = await send(agent, `${origin}/hang`).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'EVENKEEL_DEADLINE', endpoint: `127.0.0.1:${pods.at(0).port}` });
  });

  it('ends the wait for a pod, and leaves no request in the queue', async () => {
    const agent = await open({ deadlineMs: 100, resolver: new FakeResolver(), waitTimeoutMs: 60_000 }, 0);
    await expect(send(agent, `${origin}/`)).rejects.toEqual(missed('it waited for an endpoint'));
    expect(running(agent)).toBe(0);
    expect(attempts).toEqual([]);
  });

  it('ends the wait for a connection', async () => {
    const pod = await Pod.start({ name: 'orders', backlog: 1 });
    const agent = await open({ deadlineMs: 300, resolver: staticEndpoints([pod.endpoint]) }, 1);
    await using _hanging = await HangingEndpoint.seize(pod);
    // It has the one connection that is open.
    const first = send(agent, `${origin}/`).catch((error: unknown) => error);
    await expect(send(agent, `${origin}/`)).rejects.toEqual(missed('it waited for a connection to 127.0.0.1:'));
    expect(await first).toEqual(missed('no answer from 127.0.0.1:'));
    await until('nothing runs', () => running(agent) === 0);
  });

  it('ends a response that has begun; that is not held against the pod', async () => {
    const clock = new FakeClock();
    const agent = await open({ deadlineMs: 1_000, clock });
    // Node tells the request of the error, too.
    const outgoing = get(`${origin}/hang-body`, { agent }).on('error', () => {});
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
    const failed = expect(text(response)).rejects.toEqual(missed('127.0.0.1:', 'was still answering'));
    await clock.advanceAsync(1_000);
    await failed;
    await until('nothing runs', () => running(agent) === 0);
    expect(attempts.map(({ outcome }) => outcome.kind)).toEqual(['cancelled']);
  });

  it('does nothing to a request that ends earlier', async () => {
    const agent = await open({ deadlineMs: 60_000 });
    for (let request = 0; request < 20; request++) expect((await send(agent, `${origin}/`)).status).toBe(200);
    await until('nothing runs', () => running(agent) === 0);
  });

  it('may differ from request to request', async () => {
    const asked: (number | undefined)[] = [undefined, Number.POSITIVE_INFINITY, 100, 0, -5];
    const agent = await open({ deadlineMs: ({ path }) => asked[Number(path.split('=')[1])] });
    const to = (index: number, path = '/hang'): Promise<unknown> => send(agent, `${origin}${path}?index=${index}`);
    for (const index of [2, 3, 4]) expect(await codeOf(to(index))).toBe('EVENKEEL_DEADLINE');
    for (const index of [0, 1]) await to(index, '/');
  });

  it('that is not a number is an error of its function, and leaves nothing behind', async () => {
    const agent = await open({ deadlineMs: () => 'soon' as never });
    expect(() => get(`${origin}/`, { agent })).toThrow(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
    expect(running(agent)).toBe(0);
  });

  it('does not cut an upgraded connection', async () => {
    const clock = new FakeClock();
    const agent = await open({ deadlineMs: 1_000, clock });
    const socket = new WebSocket('ws://orders.shop:8080/', { agent });
    await new Promise((resolve) => socket.once('open', resolve));
    // Another request of the same time, begun later, is over: so would be the deadline of the first.
    const failed = codeOf(send(agent, `${origin}/hang`));
    await clock.advanceAsync(1_000);
    expect(await failed).toBe('EVENKEEL_DEADLINE');
    expect(socket.readyState).toBe(WebSocket.OPEN);
    socket.terminate();
  });

  const clients: Record<string, (agent: HttpServiceAgent) => Promise<unknown>> = {
    axios: (httpAgent) => axios.get(`${origin}/hang`, { httpAgent, proxy: false }),
    got: (http) => got(`${origin}/hang`, { agent: { http }, retry: { limit: 0 } }),
    'node-fetch': (agent) => fetch(`${origin}/hang`, { agent }),
  };
  it.each(Object.entries(clients))('reaches the caller of %s with its code', async (_name, call) => {
    expect(await codeOf(call(await open({ deadlineMs: 200 })))).toBe('EVENKEEL_DEADLINE');
  });
});
