import { errors } from 'undici';
import { describe, expect, it } from 'vitest';
import { outcomeOfError, rawHeader } from '../../../../src/adapter/undici/outcome.js';

const withCode = (code: string): Error => Object.assign(new Error(code), { code });

describe('outcomeOfError of a request that may have been sent', () => {
  it.each([
    [new errors.HeadersTimeoutError(), 'failure', 'timeout'],
    [new errors.BodyTimeoutError(), 'failure', 'timeout'],
    [new errors.SocketError('other side closed'), 'failure', 'reset'],
    [withCode('ECONNRESET'), 'failure', 'reset'],
    [withCode('EPIPE'), 'failure', 'reset'],
    [withCode('ETIMEDOUT'), 'failure', 'reset'],
    [withCode('ERR_HTTP2_GOAWAY_SESSION'), 'failure', 'reset'],
    [withCode('ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR'), 'failure', 'reset'],
    [new errors.HTTPParserError('bad'), 'failure', 'protocol'],
    [new errors.HeadersOverflowError(), 'failure', 'protocol'],
    [new errors.ResponseContentLengthMismatchError(), 'failure', 'protocol'],
    [new errors.ResponseExceededMaxSizeError(), 'cancelled', undefined],
    [new errors.RequestAbortedError(), 'cancelled', undefined],
    [new errors.ClientDestroyedError(), 'cancelled', undefined],
    [new Error('thrown by the body of the caller'), 'cancelled', undefined],
    [new DOMException('given up', 'AbortError'), 'cancelled', undefined],
  ])('%s is %s %s', (error, kind, cause) => {
    expect(outcomeOfError(error, true)).toEqual(cause === undefined ? { kind } : { kind, cause });
  });
});

describe('outcomeOfError of a request that was never sent', () => {
  it.each([
    [new errors.ClientClosedError(), 'not-started'],
    [new errors.ClientDestroyedError(), 'not-started'],
    [withCode('ECONNRESET'), 'not-started'],
    [new errors.InvalidArgumentError('bad header'), 'cancelled'],
    [new errors.RequestContentLengthMismatchError(), 'cancelled'],
    [new Error('thrown by the body of the caller'), 'cancelled'],
  ])('%s is %s', (error, kind) => {
    expect(outcomeOfError(error, false)).toEqual({ kind });
  });
});

describe('rawHeader', () => {
  it('finds a header by its name in any case, in buffers and strings', () => {
    expect(rawHeader([Buffer.from('Retry-After'), Buffer.from('3')], 'retry-after')).toBe('3');
    expect(rawHeader(['date', 'today', 'retry-after', '4'], 'retry-after')).toBe('4');
    expect(rawHeader([Buffer.from('date'), Buffer.from('today')], 'retry-after')).toBeUndefined();
    expect(rawHeader({ 'retry-after': '3' }, 'retry-after')).toBeUndefined();
  });
});
