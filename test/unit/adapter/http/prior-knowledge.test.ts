import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { detectHttp2 } from '../../../../src/adapter/http/prior-knowledge.js';

/** A socket without a network: what is written to it, and what the server says. */
function startProbe() {
  const socket = Object.assign(new PassThrough(), { destroySoon: () => socket.destroy() });
  const written: Buffer[] = [];
  socket.write = ((chunk: Buffer) => {
    written.push(chunk);
    return true;
  }) as never;
  const verdicts: unknown[] = [];
  detectHttp2(
    socket as never,
    (isHttp2) => verdicts.push(isHttp2),
    (error) => verdicts.push(error),
  );
  return { socket, verdicts, sent: () => Buffer.concat(written) };
}

const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);

it('sends the preface, no request, and a GOAWAY to a server that answers with its settings', () => {
  const { socket, verdicts, sent } = startProbe();
  expect(sent()).toHaveLength(0);
  socket.emit('connect');
  expect(sent().toString('latin1')).toBe('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0');
  // In pieces, as a network may deliver it.
  socket.emit('data', settings.subarray(0, 2));
  expect(verdicts).toEqual([]);
  socket.emit('data', settings.subarray(2));
  expect(verdicts).toEqual([true]);
  expect(sent().subarray(33)).toEqual(Buffer.from([0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
  expect(socket.destroyed).toBe(true);
});

it.each([
  ['answers in HTTP/1.1', (socket: PassThrough) => socket.emit('data', Buffer.from('HTTP/1.1 400 Bad Request'))],
  ['closes', (socket: PassThrough) => socket.emit('end')],
  ['resets', (socket: PassThrough) => socket.emit('error', new Error('ECONNRESET'))],
])('a server that %s does not speak HTTP/2', (_, answer) => {
  const { socket, verdicts, sent } = startProbe();
  socket.emit('connect');
  answer(socket);
  // Whatever follows.
  socket.emit('data', settings);
  socket.emit('end');
  expect(verdicts).toEqual([false]);
  expect(sent()).toHaveLength(33);
});

it('a server that accepts no connection proves nothing', () => {
  const { socket, verdicts } = startProbe();
  const refused = new Error('ECONNREFUSED');
  socket.emit('error', refused);
  expect(verdicts).toEqual([refused]);
});
