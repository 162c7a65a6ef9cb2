import { PassThrough } from 'node:stream';
import type { ObserverEvents } from 'evenkeel';
import { createAgent, type HttpsServiceAgent } from 'evenkeel/node-http';
import { FakeResolver } from 'evenkeel/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { connected } from '../../support/fixtures/connected.js';
import { Pod } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { running, send } from './support/request.js';

const certificate = createCertificate({ hosts: ['orders.shop'] });
const url = 'https://orders.shop:8443/';

describe('a pod that leaves during the handshake of a connection to it', () => {
  let pods: Pod[] = [];
  let orders: HttpsServiceAgent;

  afterEach(async () => {
    orders.destroy();
    await orders.close();
    await Promise.all(pods.map((pod) => pod[Symbol.asyncDispose]()));
  });

  it('sends the waiting requests to another pod, even without retries: nothing of them was sent', async () => {
    const attempts: ObserverEvents['attemptEnded'][] = [];
    pods = [
      await Pod.start({ name: 'leaving', tls: certificate }),
      await Pod.start({ name: 'staying', tls: certificate }),
    ];
    const [leaving, staying] = pods as [Pod, Pod];
    const resolver = new FakeResolver();
    resolver.update(leaving.endpoint);
    orders = createAgent(url.slice(0, -1) as 'https://orders.shop:8443', {
      resolver,
      tls: { ca: certificate.cert },
      pool: { connectTimeoutMs: 60_000 },
      retry: { maxAttempts: 1 },
      observer: { attemptEnded: (event) => attempts.push(event) },
    });
    await connected(orders.balancer, 1);
    await send(orders, url);
    attempts.length = 0;
    await leaving.end();
    await until('it has no connection', async () => (await leaving.stats()).open === 0);
    leaving.freeze();
    const answers = Array.from({ length: 20 }, () => send(orders, url, { method: 'POST', body: 'once' }));
    await until('they are on their way', () => running(orders) === 20);
    resolver.update(staying.endpoint);
    await until('it has left', () => orders.balancer.snapshot().endpoints.some(({ state }) => state === 'draining'));
    await connected(orders.balancer, 1);
    const names = (await Promise.all(answers)).map(({ headers }) => headers['x-pod']);
    expect(names).toEqual(new Array(20).fill('staying'));
    leaving.thaw();
    expect((await leaving.stats()).requests).toBe(1);
    const moved = attempts.filter(({ retrying }) => retrying);
    expect(moved.map(({ outcome }) => outcome.kind)).toEqual(new Array(20).fill('not-started'));
  });

  it('sends a waiting request elsewhere also if another connection has just become free', async () => {
    pods = [
      await Pod.start({ name: 'leaving', tls: certificate }),
      await Pod.start({ name: 'staying', tls: certificate }),
    ];
    const [leaving, staying] = pods as [Pod, Pod];
    const resolver = new FakeResolver();
    resolver.update(leaving.endpoint);
    orders = createAgent(url.slice(0, -1) as 'https://orders.shop:8443', {
      resolver,
      tls: { ca: certificate.cert },
      pool: { connectTimeoutMs: 60_000 },
    });
    await connected(orders.balancer, 1);
    const upload = new PassThrough();
    upload.write('begun');
    const first = send(orders, `${url}echo`, { method: 'POST', body: upload });
    await until('the pod has the first request', async () => (await leaving.stats()).requests === 1);
    await leaving.hold();
    const second = send(orders, url, { method: 'POST', body: 'once' });
    await until('the second waits for a connection', async () => (await leaving.stats()).held === 1);
    upload.end();
    expect((await first).headers['x-pod']).toBe('leaving');
    resolver.update(staying.endpoint, { ...leaving.endpoint, conditions: { ready: false, terminating: true } });
    expect((await second).headers['x-pod']).toBe('staying');
    expect((await leaving.stats()).requests).toBe(1);
  });
});
