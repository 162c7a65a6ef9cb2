import { describe, expect, it } from 'vitest';
import { keepAliveMs } from '../../../../src/adapter/node-http/idle-sockets.js';
import { outcomeOfBroken } from '../../../../src/adapter/node-http/outcome.js';

const error = (code: string, syscall?: string): Error => Object.assign(new Error(code), { code, syscall });
const broken = (given: Partial<Parameters<typeof outcomeOfBroken>[0]>): unknown =>
  outcomeOfBroken({ error: undefined, endedByPod: false, cut: false, ...given });

describe('outcomeOfBroken', () => {
  it.each([
    ['ECONNRESET', 'read'],
    ['EPIPE', 'write'],
    ['ETIMEDOUT', 'read'],
    ['EHOSTUNREACH', 'read'],
  ])('%s from the system is a reset', (code, syscall) => {
    expect(broken({ error: error(code, syscall) })).toEqual({ kind: 'failure', cause: 'reset' });
  });

  it('an end by the pod is a reset, with Node’s error, another or none', () => {
    expect(broken({ endedByPod: true, error: error('ECONNRESET') })).toEqual({ kind: 'failure', cause: 'reset' });
    expect(broken({ endedByPod: true, error: error('EPIPE') })).toEqual({ kind: 'failure', cause: 'reset' });
    expect(broken({ endedByPod: true })).toEqual({ kind: 'failure', cause: 'reset' });
  });

  it.each(['ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR', 'EPROTO'])('%s is a reset', (code) => {
    expect(broken({ error: error(code) })).toEqual({ kind: 'failure', cause: 'reset' });
  });

  it.each(['HPE_INVALID_CONSTANT', 'HPE_HEADER_OVERFLOW'])('%s is a protocol failure', (code) => {
    expect(broken({ error: error(code) })).toEqual({ kind: 'failure', cause: 'protocol' });
  });

  it.each([
    ['what node says when a caller destroys his request', error('ECONNRESET')],
    ['an abort', Object.assign(new Error('aborted'), { code: 'ABORT_ERR' })],
    ['an error the caller destroyed it with', new Error('enough')],
    ['nothing at all', undefined],
  ])('%s is caused by the caller', (_what, given) => {
    expect(broken({ error: given })).toEqual({ kind: 'cancelled' });
  });

  it('a request that we cut is held against nobody', () => {
    expect(broken({ error: error('ECONNRESET', 'read'), endedByPod: true, cut: true })).toEqual({ kind: 'cancelled' });
  });
});

describe('keepAliveMs', () => {
  it.each([
    [undefined, 60_000],
    ['timeout=5', 3_000],
    ['timeout=5, max=100', 3_000],
    ['max=100, Timeout=5', 3_000],
    ['timeout=4', 2_000],
    ['timeout=3', 1_500],
    ['timeout=2', 1_000],
    ['timeout=1', 0],
    ['timeout=0', 0],
    ['timeout=3600', 60_000],
    ['timeout=999999999', 60_000],
    ['timeout=-5', 60_000],
    ['timeout=soon', 60_000],
    ['max-timeout=5', 60_000],
    ['', 60_000],
    [['timeout=5'], 60_000],
  ])('%j is %i ms where 60 s are allowed', (hint, expected) => {
    expect(keepAliveMs(60_000, hint)).toBe(expected);
  });
});
