import { describe, expect, it } from 'vitest';
import { classifyError } from '../../../src/call/run-call.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { EvenkeelError } from '../../../src/errors.js';

const withCode = (code: unknown): Error => Object.assign(new Error('x'), { code });

describe('the outcome of an error that a call threw', () => {
  it.each([
    // Whatever it is, it came after the lease: nothing a call throws proves that it sent nothing.
    [withCode('ECONNREFUSED'), outcomes.reset],
    [withCode('ENOTFOUND'), outcomes.reset],
    [withCode('EAI_AGAIN'), outcomes.reset],
    [withCode('EHOSTUNREACH'), outcomes.reset],
    [withCode('ENETUNREACH'), outcomes.reset],
    [withCode('ECONNRESET'), outcomes.reset],
    [withCode('EPIPE'), outcomes.reset],
    [Object.assign(withCode('ETIMEDOUT'), { syscall: 'read' }), outcomes.reset],
    [withCode('ETIMEDOUT'), outcomes.timeout],
    [withCode('ER_DUP_ENTRY'), outcomes.protocol],
    [withCode(5), outcomes.protocol],
    [AbortSignal.abort().reason, outcomes.cancelled],
    [new DOMException('late', 'TimeoutError'), outcomes.timeout],
    [new EvenkeelError('EVENKEEL_CONNECT', 'x'), outcomes.cancelled],
    [new EvenkeelError('EVENKEEL_DEADLINE', 'x'), outcomes.timeout],
    [new EvenkeelError('EVENKEEL_QUEUE_FULL', 'x'), outcomes.cancelled],
    [new Error('whatever'), outcomes.protocol],
    ['words', outcomes.protocol],
    [undefined, outcomes.protocol],
    [null, outcomes.protocol],
  ])('%s', (error, outcome) => {
    expect(classifyError(error)).toBe(outcome);
  });
});
