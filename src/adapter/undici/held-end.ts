import type { Socket } from 'node:net';

/**
 * Has an HTTP/1.1 socket tell of the other side's end only once undici has taken all that came before it. undici stops
 * its parser while a body is read slowly, also when nothing but the end of the answer is left to parse. If the pod hangs
 * up then, undici fails an answer it has in full ("other side closed"): seen in 7.30 on Node 20, 24 and 26, and in 8.12 on
 * Node 26. If the answer lasts until the pod hangs up, 7.30 throws an assertion that ends the process. The parser is found
 * by the name of its symbol: in a version without it, undici does what it always did.
 */
export function holdEnd(socket: Socket): void {
  const emit = socket.emit.bind(socket) as (event: string, ...values: unknown[]) => boolean;
  const read = socket.read.bind(socket);
  let isHeld = false;
  const tell = (): void => {
    if (!isHeld || isParserPaused(socket)) return;
    isHeld = false;
    // Given up meanwhile: undici has let go of it, and takes no end any more.
    if (socket.destroyed) return;
    emit('end');
    socket.end();
  };
  socket.emit = (event: string, ...values: unknown[]): boolean => {
    if (event !== 'end' || !isParserPaused(socket)) return emit(event, ...values);
    isHeld = true;
    // Node would now end our side, too, and then close the socket, on which undici goes on with no answer.
    socket.allowHalfOpen = true;
    return true;
  };
  // The parser asks for more when it goes on.
  socket.read = (size?: number): unknown => {
    if (isHeld) queueMicrotask(tell);
    return read(size);
  };
}

function isParserPaused(socket: Socket): boolean {
  const symbol = Object.getOwnPropertySymbols(socket).find(({ description }) => description === 'parser');
  if (symbol === undefined) return false;
  const parser = Reflect.get(socket, symbol) as { readonly paused?: unknown } | null | undefined;
  return parser?.paused === true;
}
