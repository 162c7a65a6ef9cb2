import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { asError, EvenkeelError, isEvenkeelError, isResolveError, ResolveError } from '../../src/errors.js';

describe('errors', () => {
  it('have code, cause and endpoint', () => {
    const cause = new Error('refused');
    const error = new EvenkeelError('EVENKEEL_CONNECT', 'no connection', { cause, endpoint: '10.0.0.1:80' });
    expect(error).toMatchObject({ code: 'EVENKEEL_CONNECT', endpoint: '10.0.0.1:80', name: 'EvenkeelError', cause });
    expect('cause' in new EvenkeelError('EVENKEEL_CLOSED', 'closed')).toBe(false);
  });

  it('are recognized by brand and code, not by class', () => {
    const error = new EvenkeelError('EVENKEEL_CLOSED', 'closed');
    expect(isEvenkeelError(error)).toBe(true);
    expect(isEvenkeelError(error, 'EVENKEEL_CLOSED')).toBe(true);
    expect(isEvenkeelError(error, 'EVENKEEL_OPTION')).toBe(false);
    // Another copy of evenkeel in the same process.
    const other = Object.assign(new Error('closed'), { code: 'EVENKEEL_CLOSED', name: 'ResolveError' });
    Object.defineProperty(other, Symbol.for('evenkeel.error'), { value: true });
    expect(isEvenkeelError(other, 'EVENKEEL_CLOSED')).toBe(true);
    expect(isResolveError(other)).toBe(true);
    for (const value of [undefined, null, 'EVENKEEL_CLOSED', new Error('x'), { code: 'EVENKEEL_CLOSED' }]) {
      expect(isEvenkeelError(value)).toBe(false);
    }
  });

  it('from resolvers are temporary and EVENKEEL_RESOLVE unless they say otherwise', () => {
    expect(new ResolveError('no answer')).toMatchObject({ code: 'EVENKEEL_RESOLVE', permanent: false });
    const forbidden = new ResolveError('no', { code: 'EVENKEEL_FORBIDDEN', permanent: true });
    expect(forbidden).toMatchObject({ code: 'EVENKEEL_FORBIDDEN', permanent: true });
    expect(isResolveError(forbidden)).toBe(true);
    expect(isResolveError(new EvenkeelError('EVENKEEL_CLOSED', 'x'))).toBe(false);
  });

  it('are made from anything that was thrown', () => {
    const error = new Error('x');
    expect(asError(error)).toBe(error);
    const foreign = runInNewContext('new TypeError("of another realm")') as Error;
    expect(asError(foreign)).toBe(foreign);
    expect(asError('words').message).toBe('words');
    const odd = {
      toString: () => {
        throw new Error('no');
      },
    };
    expect(asError(odd)).toMatchObject({ message: 'not an Error: object', cause: odd });
    expect(asError(undefined).message).toBe('not an Error: undefined');
  });
});
