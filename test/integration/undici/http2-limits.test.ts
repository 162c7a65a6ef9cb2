import {
  createSecureServer,
  createServer,
  type Http2Server,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { roundRobin, staticEndpoints } from 'evenkeel';
import { createDispatcher, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import { afterEach, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { connected } from '../../support/fixtures/connected.js';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';
import { carriesHttp2 } from './support/version.js';

const certificate = createCertificate({ hosts: ['orders.shop'] });

/** A pod that keeps its requests until it is told to answer. */
class HoldingPod {
  readonly server: Http2Server;
  readonly sessions = new Set<ServerHttp2Session>();
  readonly #held: ServerHttp2Stream[] = [];
  isHolding = false;
  received = 0;

  constructor(isSecure: boolean, maxConcurrentStreams: number | undefined) {
    const settings = maxConcurrentStreams === undefined ? {} : { maxConcurrentStreams };
    this.server = isSecure ? createSecureServer({ ...certificate, settings }) : createServer({ settings });
    this.server.on('session', (session) => {
      this.sessions.add(session);
      session.on('error', () => {});
      session.on('close', () => this.sessions.delete(session));
    });
    this.server.on('stream', (stream) => {
      stream.on('error', () => {});
      this.received++;
      this.#held.push(stream);
      if (!this.isHolding) this.answer();
    });
  }

  get running(): number {
    return this.#held.length;
  }

  get endpoint(): { readonly address: string; readonly port: number } {
    return { address: '127.0.0.1', port: (this.server.address() as AddressInfo).port };
  }

  /** Changes how many requests new sessions may run at once. */
  allows(maxConcurrentStreams: number): void {
    this.server.updateSettings({ maxConcurrentStreams });
  }

  answer(): void {
    for (const stream of this.#held.splice(0)) {
      stream.respond({ ':status': 200 });
      stream.end('ok');
    }
  }
}

describe.runIf(carriesHttp2).each(['in the clear', 'over TLS'])(
  titleOf('with undici 8, HTTP/2 %s', carriesHttp2, 'it needs undici 8.10'),
  (how) => {
    const isSecure = how === 'over TLS';
    let pods: HoldingPod[];
    let orders: ServiceDispatcher;

    const start = async (limits: readonly (number | undefined)[], options: DispatcherOptions = {}): Promise<void> => {
      pods = limits.map((limit) => new HoldingPod(isSecure, limit));
      await Promise.all(pods.map(({ server }) => new Promise<void>((done) => server.listen(0, '127.0.0.1', done))));
      orders = createDispatcher(isSecure ? 'https://orders.shop:8443' : 'http://orders.shop:8080', {
        resolver: staticEndpoints(pods.map(({ endpoint }) => endpoint)),
        picker: roundRobin(),
        ...(isSecure ? { allowH2: true, tls: { ca: certificate.cert } } : { useH2c: true }),
        ...options,
      });
    };
    const open = async (...limits: (number | undefined)[]): Promise<void> => {
      await start(limits);
      await connected(orders.balancer, pods.length);
      await Promise.all(send(pods.length));
      for (const pod of pods) pod.isHolding = true;
    };
    const send = (count: number): Promise<string>[] =>
      Array.from({ length: count }, async () => (await orders.request({ path: '/', method: 'GET' })).body.text()).map(
        (answer) => answer.catch(String),
      );
    const running = (): number[] => pods.map((pod) => pod.running);
    const total = (): number => running().reduce((sum, count) => sum + count, 0);
    const capacities = (): number[] => orders.balancer.snapshot().endpoints.map(({ capacity }) => capacity);

    afterEach(async () => {
      await orders.destroy();
      for (const { server, sessions } of pods) {
        for (const session of sessions) session.destroy();
        server.close();
      }
    });

    it('a pod gets as many requests at once as it allows, and other pods the rest', async () => {
      await open(10, undefined);
      expect(capacities()).toEqual([10, 100]);
      const answers = send(60);
      await until('all run', () => total() === 60);
      expect(running()).toEqual([10, 50]);
      for (const pod of pods) pod.answer();
      expect(await Promise.all(answers)).toEqual(new Array(60).fill('ok'));
    });

    it('a pod that changes how many requests it allows gets that many from then on', async () => {
      await open(10);
      const [pod] = pods as [HoldingPod];
      const answers = send(30);
      await until('its limit is reached', () => total() === 10);
      for (const session of pod.sessions) session.settings({ maxConcurrentStreams: 25 });
      await until('more run', () => total() === 25);
      expect(capacities()).toEqual([25]);
      for (const session of pod.sessions) session.settings({ maxConcurrentStreams: 5 });
      await until('the limit is known', () => capacities()[0] === 5);
      pod.answer();
      await until('the rest runs', () => total() === 5);
      pod.isHolding = false;
      pod.answer();
      expect(await Promise.all(answers)).toEqual(new Array(30).fill('ok'));
    });

    it('a pod that allows none gets none: they go to others', async () => {
      await start([0, undefined]);
      await orders.balancer.ready();
      const answers = Array.from({ length: 20 }, async (_, index) => {
        const request = { path: '/', ...(index % 2 === 0 ? { method: 'GET' } : { method: 'POST', body: 'once' }) };
        return (await orders.request(request as { path: string; method: 'GET' })).body.text();
      });
      expect(await Promise.all(answers)).toEqual(new Array(20).fill('ok'));
      expect(pods[0]?.received).toBe(0);
      expect(pods[1]?.received).toBe(20);
    });

    it('requests to a pod that allows none wait no longer than they may, and go out once it allows some', async () => {
      await start([0], { waitTimeoutMs: 300 });
      expect(await Promise.all(send(3))).toEqual(
        new Array(3).fill(expect.stringContaining('allows no HTTP/2 streams at present')),
      );
      const [pod] = pods as [HoldingPod];
      pod.allows(10);
      await until('it gets requests', async () => (await send(1)[0]) === 'ok');
      expect(pod.received).toBe(1);
    });

    it('a pod that allows none any more finishes what it has, and gets requests again once it allows some', async () => {
      await open(10);
      const [pod] = pods as [HoldingPod];
      const running = send(2);
      await until('both run', () => total() === 2);
      for (const session of pod.sessions) session.settings({ maxConcurrentStreams: 0 });
      pod.allows(0);
      await until('the limit is known', () => capacities()[0] !== 10);
      const waiting = send(2);
      pod.answer();
      expect(await Promise.all(running)).toEqual(['ok', 'ok']);
      pod.allows(10);
      await until('they run', () => total() === 2);
      pod.answer();
      expect(await Promise.all(waiting)).toEqual(['ok', 'ok']);
    });
  },
);
