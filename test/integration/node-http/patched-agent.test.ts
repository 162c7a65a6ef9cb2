import { Agent } from 'node:http';
import { staticEndpoints } from 'evenkeel';
import { createAgent, type HttpServiceAgent } from 'evenkeel/node-http';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { codeOf, send } from './support/request.js';

const origin = 'http://orders.shop:8080';

/** Node's own, which libraries that stand in front of sockets replace. */
interface AddsRequests {
  addRequest(this: Agent, ...more: unknown[]): void;
}
const prototype = Agent.prototype as unknown as AddsRequests;
const { addRequest } = prototype;

let pods: Pods;
let orders: HttpServiceAgent;

beforeEach(async () => {
  pods = await Pods.start(1);
  orders = createAgent(origin, { resolver: staticEndpoints(pods.endpoints), connections: 4 });
  await connected(orders.balancer, 1);
});
afterEach(async () => {
  prototype.addRequest = addRequest;
  await orders.close();
  await pods[Symbol.asyncDispose]();
});

/** What nock 15 and msw 3 do to sockets that were opened before them. */
function destroyIdleSockets(then: () => void = () => {}): void {
  prototype.addRequest = function (...more): void {
    for (const socket of Object.values(this.freeSockets).flat()) socket?.destroy();
    then();
    addRequest.apply(this, more);
  };
}

/** Long enough for the next request to look at the socket first, which it does in an Immediate. */
const idleForAWhile = async (): Promise<void> => {
  const start = performance.now();
  await until('the socket was idle for a while', () => performance.now() - start > 20);
};

describe('a library that destroys idle sockets when a request comes', () => {
  it('does not fail the request, which uses a new connection', async () => {
    await send(orders, `${origin}/`);
    await idleForAWhile();
    destroyIdleSockets();
    expect((await send(orders, `${origin}/`)).status).toBe(200);
    expect((await pods.at(0).stats()).connections).toBe(2);
    expect((await send(orders, `${origin}/`)).status).toBe(200);
  });

  it('fails the request, and nothing else, where no new connection can be opened', async () => {
    await send(orders, `${origin}/`);
    await idleForAWhile();
    await pods.at(0).stopListening();
    destroyIdleSockets();
    expect(await codeOf(send(orders, `${origin}/`))).toBe('ECONNREFUSED');
    expect(orders.balancer.snapshot().endpoints.map(({ inFlight }) => inFlight)).toEqual([0]);
  });

  it('does no harm if the request is aborted while its connection is opened', async () => {
    await send(orders, `${origin}/`);
    await idleForAWhile();
    const giveUp = new AbortController();
    destroyIdleSockets(() => process.nextTick(() => giveUp.abort()));
    expect(await codeOf(send(orders, `${origin}/`, { signal: giveUp.signal }))).toBe('ABORT_ERR');
    prototype.addRequest = addRequest;
    expect((await send(orders, `${origin}/`)).status).toBe(200);
  });
});
