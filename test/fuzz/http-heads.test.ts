import { Metadata, status } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { outcomeOf } from '../../src/adapter/grpc-js/outcome.js';
import { outcomeOfAnswer, parseRetryAfter } from '../../src/adapter/http/answer.js';
import { reportOf } from '../../src/adapter/http/pod-signals.js';
import { keepAliveMs } from '../../src/adapter/node-http/idle-sockets.js';
import { rawHeader } from '../../src/adapter/undici/attempt-v1.js';
import type { Outcome } from '../../src/endpoint/outcome.js';
import { cookieKey, headerKey } from '../../src/picker/request-key.js';
import { drawIndex, type Rng } from '../../src/runtime/rng.js';
import { anything, eachCase, enough, LIMIT_MS, mutated, oddNumbers, oneOf } from './cases.js';

const values = [
  '5',
  '0',
  '-1',
  '999999999',
  '9999999999',
  '1e9',
  '5, 6',
  'Sun, 22 Nov 2026 14:40:06 GMT',
  'Sun, 22 Nov 9999999 14:40:06 GMT',
  'Thu, 01 Jan 1970 00:00:00 GMT',
  'timeout=5, max=100',
  'timeout=999999999',
  'timeout=0',
  'session="a"; session=b',
  'cpu_utilization=0.5',
  '"',
  '',
];
const pieces = [...values, ',', ';', '=', '\u0000', '\t', '  ', '0'.repeat(50), '"'.repeat(50), 'x'.repeat(200)];
const names = [
  'retry-after',
  'Retry-After',
  'date',
  'keep-alive',
  'cookie',
  'x-user',
  'endpoint-load-metrics',
  '__proto__',
];

function value(rng: Rng): unknown {
  if (rng.next() < 0.1) return anything(rng);
  const text = oneOf(rng, values);
  return rng.next() < 0.5 ? text : mutated(rng, Buffer.from(text), pieces).toString('latin1');
}

function checkWait(ms: number | undefined, most: number): void {
  if (ms !== undefined && !(Number.isFinite(ms) && ms >= 0 && ms <= most)) throw new Error(`waits ${ms} ms`);
}

function checkOutcome({ kind, retryAfterMs, report }: Outcome): void {
  if (!['success', 'failure', 'cancelled', 'not-started'].includes(kind)) throw new Error(`an outcome of ${kind}`);
  checkWait(retryAfterMs, 1e12);
  for (const number of Object.values(report?.namedMetrics ?? {}))
    if (!Number.isFinite(number)) throw new Error('not finite');
}

describe('response heads and metadata', () => {
  it('any HTTP status with any headers has an outcome, and every wait is bounded', { timeout: LIMIT_MS }, async () => {
    let waits = 0;
    await eachCase((rng) => {
      const headers = new Map(names.map((name) => [name, rng.next() < 0.7 ? value(rng) : undefined]));
      const code =
        rng.next() < 0.5 ? oneOf(rng, [429, 503]) : oneOf(rng, [200, 100, 404, 500, 599, 999, ...oddNumbers]);
      const outcome = outcomeOfAnswer(
        code,
        (name) => headers.get(name),
        reportOf(headers.get('endpoint-load-metrics')),
      );
      checkOutcome(outcome);
      checkWait(outcome.retryAfterMs, 3_600_000);
      if (outcome.retryAfterMs !== undefined) waits++;
      checkWait(parseRetryAfter(value(rng), value(rng)), 3_600_000);
      checkWait(keepAliveMs(60_000, headers.get('keep-alive')), 60_000);
    });
    enough(waits, 300);
  });

  it('raw headers and request keys of any form are read', { timeout: LIMIT_MS }, async () => {
    let found = 0;
    const [user, session] = [headerKey('x-user'), cookieKey('session')];
    await eachCase((rng) => {
      const pairs = Array.from({ length: drawIndex(rng, 6) }, () => [oneOf(rng, names), String(value(rng))] as const);
      const flat = pairs.flat();
      // Cut off in the middle, and in bytes.
      if (rng.next() < 0.2) flat.pop();
      const raw = rng.next() < 0.5 ? flat : flat.map((text) => Buffer.from(text, 'latin1'));
      const retryAfter = rawHeader(raw, 'retry-after');
      if (retryAfter !== undefined && typeof retryAfter !== 'string') throw new Error('no text');
      checkWait(parseRetryAfter(retryAfter, rawHeader(raw, 'date')), 3_600_000);
      const forms = [flat, Object.fromEntries(pairs), new Map(pairs), pairs, null, undefined];
      const options = { path: '/', method: 'GET', headers: oneOf(rng, forms) } as never;
      for (const key of [user(options), session(options)]) {
        if (key !== undefined && typeof key !== 'string') throw new Error(`a key of ${typeof key}`);
        if (key !== undefined) found++;
      }
    });
    enough(found, 1_000);
  });

  it('any gRPC status with any trailers has an outcome', { timeout: LIMIT_MS }, async () => {
    await eachCase((rng) => {
      const metadata = new Metadata();
      for (const name of ['grpc-retry-pushback-ms', 'content-type', 'x']) {
        const text = String(value(rng)).replace(/[^ -~]/g, '');
        if (rng.next() < 0.7) metadata.set(name, text);
      }
      const code = (rng.next() < 0.7 ? drawIndex(rng, 18) : oneOf(rng, oddNumbers)) as status;
      const details = String(value(rng));
      checkOutcome(outcomeOf({ code, details, metadata, quiet: rng.next() < 0.5 }));
    });
    expect(status.OK).toBe(0);
  });
});
