import { describe, expect, it } from 'vitest';
import type { EndMessage } from '../../../../src/adapter/http2/end-message.js';
import {
  endMessageOf,
  outcomeOfAbort,
  outcomeOfEndMessage,
  outcomeOfHead,
  outcomeOfReset,
  outcomeOfTrailers,
  timeoutOf,
} from '../../../../src/adapter/http2/outcome.js';
import { outcomes } from '../../../../src/index.js';
import { notBegunHeader } from '../../../../src/propagation/not-begun.js';

const refusals = { hasNotBegun: (mark: unknown) => mark === 'its mark' };
const head = (headers: object, isConnect = false) => outcomeOfHead(headers as never, undefined, refusals, isConnect);

describe('the outcome of a response', () => {
  it('follows its status over plain HTTP', () => {
    expect(head({ ':status': 404 })).toBe(outcomes.success);
    expect(head({ ':status': 501 })).toBe(outcomes.status);
    expect(head({ ':status': 503 })).toBe(outcomes.status);
    expect(head({ ':status': 429 })).toBe(outcomes.overload);
  });

  it('follows the Connect error for the status', () => {
    expect(head({ ':status': 501 }, true)).toBe(outcomes.success);
    expect(head({ ':status': 504 }, true)).toBe(outcomes.timeout);
    expect(head({ ':status': 499 }, true)).toBe(outcomes.cancelled);
    expect(head({ ':status': 500 }, true)).toBe(outcomes.status);
  });

  it('follows the gRPC status, in the trailers or in a trailers-only response', () => {
    expect(head({ ':status': 200, 'grpc-status': '14' })).toBe(outcomes.status);
    expect(outcomeOfTrailers({ 'grpc-status': '8' }, refusals)).toBe(outcomes.overload);
    expect(outcomeOfTrailers({ 'grpc-status': '5' }, refusals)).toBe(outcomes.success);
    expect(outcomeOfTrailers({ 'x-trailer': 'end' }, refusals)).toBeUndefined();
  });

  it('is a refusal when the pod itself says that it has not begun the call', () => {
    const mark = { 'grpc-status': '14', [notBegunHeader]: 'its mark' };
    expect(outcomeOfTrailers(mark, refusals)).toEqual({ kind: 'not-started', cause: 'overload' });
    expect(outcomeOfTrailers({ ...mark, [notBegunHeader]: 'of another' }, refusals)).toBe(outcomes.status);
  });

  it('is read from the body where the protocol puts it there', () => {
    const ends = (type: string, flags: number, text: string) => {
      const message = endMessageOf({ 'content-type': type }) as EndMessage;
      message.add(Buffer.concat([Buffer.from([flags, 0, 0, 0, text.length]), Buffer.from(text)]));
      return outcomeOfEndMessage(message);
    };
    expect(ends('application/connect+proto', 2, '{"error":{"code":"unavailable"}}')).toBe(outcomes.status);
    expect(ends('application/connect+json', 2, '{"error":{"code":"not_found"}}')).toBe(outcomes.success);
    expect(ends('application/connect+json', 2, '{}')).toBeUndefined();
    expect(ends('application/connect+json', 2, 'nonsense')).toBeUndefined();
    expect(ends('application/grpc-web+proto', 0x80, 'grpc-message: x\r\ngrpc-status: 13\r\n')).toBe(outcomes.status);
    expect(endMessageOf({ 'content-type': 'application/json' })).toBeUndefined();
    expect(endMessageOf({ 'content-type': 'application/grpc' })).toBeUndefined();
  });
});

describe('a stream that was cut', () => {
  it('is classified by its code, and by the error of the socket', () => {
    expect(outcomeOfReset(2, undefined)).toBe(outcomes.reset);
    expect(outcomeOfReset(8, undefined)).toBe(outcomes.reset);
    expect(outcomeOfReset(11, undefined)).toBe(outcomes.overload);
    expect(outcomeOfReset(1, undefined)).toBe(outcomes.protocol);
    expect(outcomeOfReset(1, Object.assign(new Error(), { code: 'ECONNRESET' }))).toBe(outcomes.reset);
  });
});

describe('the deadline of a caller', () => {
  it('is read from its headers', () => {
    expect(timeoutOf({ 'connect-timeout-ms': '1500' })).toBe(1_500);
    expect(timeoutOf({ 'grpc-timeout': '2S' })).toBe(2_000);
    expect(timeoutOf({ 'grpc-timeout': '250m' })).toBe(250);
    expect(timeoutOf({ 'grpc-timeout': '1000u' })).toBe(1);
    expect(timeoutOf({ 'grpc-timeout': 'soon' })).toBeUndefined();
    expect(timeoutOf({ 'connect-timeout-ms': 'soon' })).toBeUndefined();
    expect(timeoutOf({})).toBeUndefined();
  });

  it('makes an abort a timeout of the pod, if the pod had most of the time', () => {
    const headers = { 'connect-timeout-ms': '1000' };
    expect(outcomeOfAbort(headers, 900, 1_000, false)).toBe(outcomes.timeout);
    expect(outcomeOfAbort(headers, 900, 1_000, true)).toBe(outcomes.cancelled);
    expect(outcomeOfAbort(headers, 100, 1_000, false)).toBe(outcomes.cancelled);
    expect(outcomeOfAbort(headers, 500, 500, false)).toBe(outcomes.cancelled);
    expect(outcomeOfAbort({}, 900, 1_000, false)).toBe(outcomes.cancelled);
  });
});
