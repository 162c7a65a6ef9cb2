import { Metadata, status } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { outcomeOf } from '../../../../src/adapter/grpc-js/outcome.js';
import { createEndpoint } from '../../../../src/index.js';
import { connectionMark, notBegunHeader } from '../../../../src/propagation/not-begun.js';

/** Trailers as a server sends them. */
function trailers(entries: Readonly<Record<string, string>> = {}): Metadata {
  const metadata = new Metadata();
  metadata.set('content-type', 'application/grpc');
  for (const [name, value] of Object.entries(entries)) metadata.set(name, value);
  return metadata;
}

const fromServer = (code: status, entries?: Readonly<Record<string, string>>, quiet = false) =>
  outcomeOf({ code, details: 'the server says', metadata: trailers(entries), quiet });
const ours = (code: status, details = 'grpc-js says') =>
  outcomeOf({ code, details, metadata: new Metadata(), quiet: false });

describe('a status from a server', () => {
  it.each([
    'OK',
    'INVALID_ARGUMENT',
    'NOT_FOUND',
    'ALREADY_EXISTS',
    'PERMISSION_DENIED',
    'FAILED_PRECONDITION',
    'ABORTED',
    'OUT_OF_RANGE',
    'UNIMPLEMENTED',
    'UNAUTHENTICATED',
  ] as const)('%s is a success', (code) => {
    expect(fromServer(status[code])).toEqual({ kind: 'success' });
  });

  it.each(['UNKNOWN', 'INTERNAL', 'DATA_LOSS', 'UNAVAILABLE'] as const)('%s is a failure', (code) => {
    expect(fromServer(status[code])).toEqual({ kind: 'failure', cause: 'status' });
  });

  it('an unknown code counts as UNKNOWN', () => {
    expect(fromServer(99 as status)).toEqual({ kind: 'failure', cause: 'status' });
  });

  it('RESOURCE_EXHAUSTED, and any status with a pushback, is overload', () => {
    expect(fromServer(status.RESOURCE_EXHAUSTED)).toEqual({ kind: 'failure', cause: 'overload' });
    expect(fromServer(status.UNAVAILABLE, { 'grpc-retry-pushback-ms': '250' })).toEqual({
      kind: 'failure',
      cause: 'overload',
      retryAfterMs: 250,
    });
    for (const never of ['-1', 'later', '99999999999']) {
      expect(fromServer(status.UNAVAILABLE, { 'grpc-retry-pushback-ms': never })).toEqual({
        kind: 'failure',
        cause: 'overload',
      });
    }
    expect(fromServer(status.NOT_FOUND, { 'grpc-retry-pushback-ms': '250' })).toEqual({ kind: 'success' });
  });

  it('carries its load report if it is a success', () => {
    const report = { cpuUtilization: 0.5 };
    const ended = { code: status.OK, details: '', metadata: trailers(), quiet: false };
    expect(outcomeOf(ended, report)).toEqual({ kind: 'success', report });
  });
});

it('a refusal counts with the mark of the server, and not with that of a server behind it', () => {
  const endpoint = createEndpoint({ address: '10.0.0.1', port: 80 });
  const refused = (address: string) => {
    const metadata = trailers({ [notBegunHeader]: connectionMark(address, 80, 40_000) });
    return outcomeOf({ code: status.RESOURCE_EXHAUSTED, details: 'busy', metadata, quiet: false, endpoint });
  };
  expect(refused('10.0.0.1')).toEqual({ kind: 'not-started', cause: 'overload' });
  expect(refused('10.0.0.2')).toEqual({ kind: 'failure', cause: 'overload' });
});

describe('a status from grpc-js itself', () => {
  it('a lost connection is a reset', () => {
    expect(ours(status.UNAVAILABLE, 'Connection dropped')).toEqual({ kind: 'failure', cause: 'reset' });
  });

  it('a stream that was under way at a GOAWAY was never started', () => {
    expect(ours(status.UNAVAILABLE, 'Stream refused by server')).toEqual({ kind: 'not-started' });
    // Node.js 26.
    const written = 'Write error: Stream closed with error code NGHTTP2_REFUSED_STREAM';
    expect(ours(status.UNAVAILABLE, written)).toEqual({ kind: 'not-started' });
  });

  it('an invalid stream is a protocol failure; a message too large for us is not held against the endpoint', () => {
    expect(ours(status.INTERNAL)).toEqual({ kind: 'failure', cause: 'protocol' });
    expect(ours(status.RESOURCE_EXHAUSTED)).toEqual({ kind: 'success' });
  });

  it('a cancelled call is not held against the endpoint', () => {
    expect(ours(status.CANCELLED)).toEqual({ kind: 'cancelled' });
    expect(fromServer(status.CANCELLED)).toEqual({ kind: 'cancelled' });
  });

  it('a deadline is a timeout, unless the response had begun or its method is known to stream', () => {
    expect(ours(status.DEADLINE_EXCEEDED)).toEqual({ kind: 'failure', cause: 'timeout' });
    expect(fromServer(status.DEADLINE_EXCEEDED, {}, true)).toEqual({ kind: 'cancelled' });
  });
});
