import { describe, expect, it } from 'vitest';
import { verdictOf } from '../../../src/adapter/mysql2/outcome.js';
import { outcomeOfBroken } from '../../../src/adapter/node-http/outcome.js';
import { outcomeOfError } from '../../../src/adapter/undici/outcome.js';
import { classifyError } from '../../../src/call/run-call.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { isConnectError, outcomeOfSystemError } from '../../../src/endpoint/system-errors.js';

const lost = [
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ENETDOWN',
  'ENETRESET',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ETIMEDOUT',
  'EPROTO',
  'ERR_SSL_SSLV3_ALERT_BAD_RECORD_MAC',
];

describe('a system error', () => {
  it.each(lost)('%s means the same to every adapter: the connection of a sent call is lost', (code) => {
    const error = Object.assign(new Error(code), { code, syscall: 'read', errno: -1 });
    expect(outcomeOfSystemError(code)).toBe(outcomes.reset);
    expect(classifyError(error)).toBe(outcomes.reset);
    expect(outcomeOfError(error, true)).toBe(outcomes.reset);
    expect(outcomeOfBroken({ error, endedByPod: false, cut: false })).toBe(outcomes.reset);
    expect(verdictOf(error)).toMatchObject({ outcome: outcomes.reset, unsent: false, usable: false });
  });

  it.each(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN'])(
    '%s cannot come from an open connection: an adapter that sees it knows that it has another source',
    (code) => {
      const error = Object.assign(new Error(code), { code, syscall: 'connect', errno: -1 });
      expect(isConnectError(code)).toBe(true);
      expect(outcomeOfSystemError(code)).toBeUndefined();
      expect(outcomeOfError(error, true)).toBe(outcomes.cancelled);
      expect(outcomeOfBroken({ error, endedByPod: false, cut: false })).toBe(outcomes.cancelled);
    },
  );

  it('is recognized by its code alone', () => {
    for (const code of [undefined, null, 5, '', 'ENOENT', 'ER_DUP_ENTRY', 'constructor', '__proto__']) {
      expect(outcomeOfSystemError(code)).toBeUndefined();
      expect(isConnectError(code)).toBe(false);
    }
  });
});
