import { errors } from 'undici';
import { describe, expect, it } from 'vitest';
import { rawHeader } from '../../../../src/adapter/undici/attempt-v1.js';
import { outcomeOfError } from '../../../../src/adapter/undici/outcome.js';

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

describe('outcomeOfError of a request over HTTP/2', () => {
  const goaway = 'HTTP/2: "GOAWAY" frame received with code';
  const streamError = (http2ErrorCode?: number): Error =>
    Object.assign(withCode('ERR_HTTP2_STREAM_ERROR'), { http2ErrorCode });

  it.each([
    ['a GOAWAY left out', new errors.InformationalError(`${goaway} 0`)],
    ['was refused', streamError(7)],
  ])('that %s is not-started: the pod did nothing for it', (_what, error) => {
    expect(outcomeOfError(error, true)).toEqual({ kind: 'not-started' });
  });

  it.each([
    // undici 8.0 and 8.1 say this of any request that runs.
    ['a GOAWAY may have left out or not', new errors.SocketError(`${goaway} 0`)],
    ['died with an error of its connection', new errors.SocketError(`${goaway} 2`)],
    ['died with an error of its connection', new errors.InformationalError(`${goaway} 2`)],
    ['died with its connection', new errors.InformationalError('HTTP/2: "PING" errored')],
    ['was reset by the pod at work', streamError(2)],
    ['was reset for reasons nobody told', streamError()],
    [
      'died with a session that says refused',
      Object.assign(withCode('ERR_HTTP2_SESSION_ERROR'), { http2ErrorCode: 7 }),
    ],
  ])('that %s may have been processed', (_what, error) => {
    expect(outcomeOfError(error, true)).toEqual({ kind: 'failure', cause: 'reset' });
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
