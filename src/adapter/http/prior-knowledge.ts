import type { Socket } from 'node:net';

const FRAME_HEAD = 9;
const SETTINGS = 4;
const GOAWAY = 7;
/** The first bytes of an HTTP/2 client (RFC 9113, 3.4): a fixed text, and its settings. */
const PREFACE = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0)]);
/** A GOAWAY frame without an error: no stream was opened on the connection. */
const GOAWAY_FRAME = frame(GOAWAY, 8);

/** A socket with the field by which undici chooses the HTTP version, as `TLSSocket` has it. */
export type SpokenSocket = Socket & { alpnProtocol?: string | false | null };

/**
 * Finds out whether a server speaks HTTP/2 in the clear, on a connection of its own: a server that does not takes the preface for a broken
 * request and hangs up, so a request behind it would be lost. HTTP/2 servers answer with their settings before anything else. A server that
 * only closes the connection does not speak HTTP/2 either. A silent server gets no verdict.
 *
 * @param probe A plain socket that is connecting, and that is used up.
 * @param answered Called at most once, and not after `probe` was destroyed.
 * @param failed Called instead if no connection could be opened.
 */
export function detectHttp2(probe: Socket, answered: (isHttp2: boolean) => void, failed: (error: Error) => void): void {
  let head = Buffer.alloc(0);
  let isOpen = false;
  let isOver = false;
  const finish = (isHttp2: boolean): void => {
    if (isOver) return;
    isOver = true;
    if (isHttp2) probe.write(GOAWAY_FRAME);
    probe.destroySoon();
    answered(isHttp2);
  };
  probe.once('connect', () => {
    isOpen = true;
    probe.write(PREFACE);
  });
  probe.on('data', (chunk) => {
    if (isOver) return;
    head = Buffer.concat([head, chunk]);
    // The first three bytes of an HTTP/2 frame are its length; the fourth is its type.
    if (head.length > 3) finish(head[3] === SETTINGS);
  });
  probe.on('end', () => finish(false));
  probe.on('error', (error) => {
    if (isOpen) finish(false);
    else if (!isOver) failed(error);
  });
}

/** Encodes an HTTP/2 frame that belongs to no stream. Its payload, if it has one, is zeros. */
function frame(type: number, payload: number): Buffer {
  const bytes = Buffer.alloc(FRAME_HEAD + payload);
  bytes[2] = payload;
  bytes[3] = type;
  return bytes;
}
