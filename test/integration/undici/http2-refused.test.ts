import { Readable } from 'node:stream';
import { type ObserverEvents, roundRobin, staticEndpoints } from 'evenkeel';
import { createDispatcher, createFetch, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { endText } from '../../support/fixtures/attempt-text.js';
import { connected } from '../../support/fixtures/connected.js';
import { Pods } from '../../support/pods/pods.js';
import { RefusingHttp2Pod } from '../../support/pods/refusing-http2-pod.js';
import { titleOf } from '../../support/title-of.js';
import { carriesHttp2 } from './support/version.js';

const origin = 'https://orders.shop:8443';
const certificate = createCertificate({ hosts: ['orders.shop'] });

/**
 * A pod says of a request that it was not processed, and says so again when undici sends it there once more. Before 8.10
 * undici does that without end.
 */
describe.runIf(carriesHttp2)(
  titleOf('with undici 8, a pod that refuses a request twice', carriesHttp2, 'it needs undici 8.10'),
  () => {
    let pods: Pods;
    let refusing: RefusingHttp2Pod;
    let orders: ServiceDispatcher;
    let attempts: ObserverEvents['attemptEnded'][];
    let ids = 0;

    beforeAll(async () => {
      pods = await Pods.start(2, { tls: certificate, http2: true });
    });
    afterAll(() => pods[Symbol.asyncDispose]());
    beforeEach(() => {
      attempts = [];
    });
    afterEach(async () => {
      await orders.destroy();
      await refusing[Symbol.asyncDispose]();
    });

    const open = async (endpoints: number, options: DispatcherOptions = {}): Promise<void> => {
      orders = createDispatcher(origin, {
        resolver: staticEndpoints([refusing.endpoint, ...pods.endpoints].slice(0, endpoints)),
        tls: { ca: certificate.cert },
        allowH2: true,
        picker: roundRobin(),
        observer: { attemptEnded: (event) => attempts.push(event) },
        ...options,
      });
      await connected(orders.balancer, endpoints);
    };
    const send = async (method: 'GET' | 'POST', body?: unknown): Promise<string> => {
      const headers = { 'x-id': `refused-${++ids}` };
      const answer = await orders.request({ path: '/', method, headers, body: body as never });
      return ((await answer.body.json()) as { pod: string }).pod;
    };
    const arrived = async (): Promise<number[]> => {
      const stats = await Promise.all(pods.all.map((pod) => pod.stats()));
      return stats.flatMap((pod) =>
        Object.entries(pod.ids).flatMap(([id, count]) => (id.startsWith('refused-') ? count : [])),
      );
    };
    const told = (): string[] =>
      attempts.filter(({ endpoint }) => endpoint.port === refusing.endpoint.port).map(endText);

    it.each([
      ['goaway', 'GET', undefined],
      ['goaway', 'POST', 'once'],
      ['goaway', 'POST', Buffer.from('once')],
      ['reset', 'GET', undefined],
      ['reset', 'POST', 'once'],
    ] as const)('by %s gets no third try: a %s goes to another pod, once', async (refusal, method, body) => {
      refusing = await RefusingHttp2Pod.start(certificate, refusal);
      await open(3);
      const before = (await arrived()).length;
      const answers = await Promise.all([1, 2, 3].map(() => send(method, body)));
      for (const pod of answers) expect(['pod-0', 'pod-1']).toContain(pod);
      expect((await arrived()).length).toBe(before + 3);
      expect(new Set(await arrived())).toEqual(new Set([1]));
      expect(told()).toEqual(['not-started again']);
      expect(refusing.requests).toBe(2);
      expect(orders.balancer.snapshot().counts).toMatchObject({ retries: { 'not-started': 1, reset: 0 } });
    });

    it.each([
      ['text', 'once'],
      ['bytes', new TextEncoder().encode('once')],
      ['fields', new URLSearchParams({ sent: 'once' })],
    ])(
      'gets no third try through createFetch either, where a POST with %s goes to another pod',
      async (_what, body) => {
        refusing = await RefusingHttp2Pod.start(certificate, 'goaway');
        const fetchOrders = createFetch(origin, {
          resolver: staticEndpoints([refusing.endpoint, ...pods.endpoints]),
          tls: { ca: certificate.cert },
          allowH2: true,
          picker: roundRobin(),
        });
        orders = fetchOrders.dispatcher;
        await connected(fetchOrders.balancer, 3);
        const answers = await Promise.all(
          [1, 2, 3].map(async () => {
            const headers = { 'x-id': `refused-${++ids}` };
            const response = await fetchOrders('/', { method: 'POST', headers, body });
            return (await response.json()) as { pod: string; length: number; headers: Record<string, string> };
          }),
        );
        for (const { pod, length, headers } of answers) {
          expect(['pod-0', 'pod-1']).toContain(pod);
          expect(length).toBe(Buffer.byteLength(body instanceof Uint8Array ? body : String(body)));
          expect(headers['content-type']).toBe(new Response(body).headers.get('content-type') ?? undefined);
        }
        expect(new Set(await arrived())).toEqual(new Set([1]));
        expect(refusing.requests).toBe(2);
      },
    );

    it.each(['goaway', 'reset'] as const)(
      'by %s, and is the only one, gets it twice more before it fails, over few connections',
      async (refusal) => {
        refusing = await RefusingHttp2Pod.start(certificate, refusal);
        await open(1);
        await expect(send('POST', 'once')).rejects.toMatchObject({
          message: expect.stringMatching(/GOAWAY|REFUSED_STREAM/),
        });
        expect(told()).toEqual(['not-started again', 'not-started again']);
        expect(refusing.requests).toBe(4);
        // Those undici needs for two attempts. One that resets a stream keeps its connection.
        expect(refusing.connections).toBeLessThanOrEqual(refusal === 'goaway' ? 4 : 1);
      },
    );

    it.each(['goaway', 'reset'] as const)('by %s gets it no more where there are no retries', async (refusal) => {
      refusing = await RefusingHttp2Pod.start(certificate, refusal);
      await open(1, { retry: { maxAttempts: 1 } });
      await expect(send('POST', 'once')).rejects.toMatchObject({
        message: expect.stringMatching(/GOAWAY|REFUSED_STREAM/),
      });
      expect(refusing.requests).toBe(2);
    });

    it.each([
      ['a stream', () => Readable.from([Buffer.from('once')])],
      [
        'what is made as it is sent',
        async function* () {
          yield Buffer.from('once');
        },
      ],
    ])('fails a request whose body is %s: it is consumed', async (_what, body) => {
      refusing = await RefusingHttp2Pod.start(certificate, 'goaway');
      await open(3);
      const before = (await arrived()).length;
      const answers = await Promise.allSettled([1, 2, 3].map(() => send('POST', body())));
      expect(answers.filter(({ status }) => status === 'rejected')).toHaveLength(1);
      expect((await arrived()).length).toBe(before + 2);
      expect(told()).toEqual(['not-started']);
    });

    it('differs from one that hangs up: a POST that may have been processed fails', async () => {
      refusing = await RefusingHttp2Pod.start(certificate, 'after-use');
      await open(3);
      const before = (await arrived()).length;
      const answers = await Promise.allSettled([1, 2, 3].map(() => send('POST', 'once')));
      expect(answers.filter(({ status }) => status === 'rejected')).toHaveLength(1);
      expect((await arrived()).length).toBe(before + 2);
      expect(told()).toEqual(['failure reset']);
      expect(refusing.requests).toBe(1);
    });
  },
);
