import { describe, expect, it } from 'vitest';
import { bytesLeft, responseHead, withDeadline } from '../../../../src/adapter/node-http/wire.js';

const head = (text: string, method = 'GET') => responseHead(Buffer.from(text, 'latin1'), method);

describe('the head of a response', () => {
  it('is known once it is complete', () => {
    const text = 'HTTP/1.1 503 Service Unavailable\r\nX-A: 1\r\nx-a:2 \r\nContent-Length: 12\r\n\r\n';
    for (let length = 0; length < text.length; length++) expect(head(text.slice(0, length))).toBeUndefined();
    expect(head(`${text}body`)).toEqual({
      status: 503,
      headers: { 'x-a': '1, 2', 'content-length': '12' },
      end: text.length,
      bodyBytes: 12,
      keepsAlive: true,
    });
  });

  it.each([
    ['HTTP/1.1 204 No Content\r\n', 'GET', 0, true],
    ['HTTP/1.1 304 \r\ncontent-length: 9\r\n', 'GET', 0, true],
    ['HTTP/1.1 200 OK\r\ncontent-length: 9\r\n', 'HEAD', 0, true],
    ['HTTP/1.1 200 OK\r\n', 'GET', undefined, true],
    ['HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n', 'GET', 'chunked', true],
    ['HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n', 'GET', undefined, true],
    ['HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n', 'GET', undefined, true],
    ['HTTP/1.1 200 OK\r\ncontent-length: -3\r\n', 'GET', undefined, true],
    ['HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: x, Close\r\n', 'GET', 3, false],
    ['HTTP/1.0 200 OK\r\ncontent-length: 3\r\n', 'GET', 3, false],
  ])('%j to %s: a body of %s bytes, another request: %s', (text, method, bodyBytes, keepsAlive) => {
    expect(head(`${text}\r\n`, method)).toMatchObject({ bodyBytes, keepsAlive });
  });

  it.each(['S', 'HTTQ', 'HTTP/2'])('%j: nothing to go by, before it is complete', (text) => {
    expect(head(text)).toBeNull();
  });

  it.each(['SSH-2.0-OpenSSH', 'HTTP/2 200', 'HTTP/1.1 20', 'HTTP/1.1 2000 OK', 'HTTP/1.1 200 OK\r\nno header'])(
    '%j: nothing to go by',
    (text) => {
      expect(head(`${text}\r\n\r\n`)).toBeNull();
    },
  );
});

it.each([
  ['content-length: 5', 'abc', 2],
  ['content-length: 5', 'abcde', 0],
  ['content-length: 5', 'abcdeH', -1],
  ['x: y', 'abc', Number.POSITIVE_INFINITY],
  ['transfer-encoding: chunked', '', 1],
  ['transfer-encoding: chunked', '3', 1],
  ['transfer-encoding: chunked', '3\r\nab', 3],
  ['transfer-encoding: Chunked', '3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r', 1],
  ['transfer-encoding: chunked', '3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n', 0],
  ['transfer-encoding: chunked', '0\r\n\r\nHTTP', -4],
  ['transfer-encoding: chunked', '0\r\nx-trailer: 1\r\n\r\n', Number.POSITIVE_INFINITY],
  ['transfer-encoding: chunked', '3\r\nabcd\r\n', Number.POSITIVE_INFINITY],
  ['transfer-encoding: chunked', 'xyz\r\n', Number.POSITIVE_INFINITY],
  ['transfer-encoding: gzip, chunked', '0\r\n\r\n', Number.POSITIVE_INFINITY],
])('%s: of %j there are %s bytes to come', (header, body, left) => {
  const bytes = Buffer.from(`HTTP/1.1 200 OK\r\n${header}\r\n\r\n${body}`);
  expect(bytesLeft(responseHead(bytes, 'GET') as never, bytes)).toBe(left);
});

it('what is left of a deadline is said in the head only, and never more than before', () => {
  const said = (data: string, ms: number): unknown =>
    withDeadline([{ data, encoding: 'utf8' }, { data: 'x' }], 'x-left', ms);
  const text = 'PUT / HTTP/1.1\r\nA: 1\r\nX-Left: 500\r\n\r\nbody\r\nX-Left: 500\r\n';
  expect(said(text, 321.7)).toEqual([{ data: text.replace('500', '321'), encoding: 'utf8' }, { data: 'x' }]);
  expect(said(text, 700)).toEqual([{ data: text, encoding: 'utf8' }, { data: 'x' }]);
  expect(said('PUT / HTTP/1.1\r\nA: 1\r\n\r\n', 1)).toEqual([
    { data: 'PUT / HTTP/1.1\r\nA: 1\r\n\r\n', encoding: 'utf8' },
    { data: 'x' },
  ]);
  const bytes = [{ data: Buffer.from('x') }];
  expect(withDeadline(bytes, 'x-left', 1)).toBe(bytes);
});
