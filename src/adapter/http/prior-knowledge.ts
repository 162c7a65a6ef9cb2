import type { Socket } from 'node:net';

const FRAME_HEAD = 9;
const SETTINGS = 4;
const GOAWAY = 7;
/** What an HTTP/2 client sends first (RFC 9113, 3.4): this text, and its settings. */
const PREFACE = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0)]);
/** A GOAWAY frame that says no stream was opened and nothing is wrong. */
const GOAWAY_FRAME = frame(GOAWAY, 8);

/** A socket with the field by which undici chooses the HTTP version, as `TLSSocket` has it. */
export type SpokenSocket = Socket & { alpnProtocol?: string | false | null };

/**
 * Asks whether a server speaks HTTP/2 in the clear, on a connection of its own: one that does not takes the preface for a broken
 * request and hangs up, so a request behind it would be lost. HTTP/2 answers with its settings before anything else. A server that
 * only closes the connection does not speak it either. One that is silent gets no verdict.
 *
 * @param probe A plain socket that is connecting. It is used up.
 * @param answered Called at most once, not after `probe` was destroyed.
 * @param failed Called instead if no connection could be opened.
 */
export function detectHttp2(probe: Socket, answered: (isHttp2: boolean) => void, failed: (error: Error) => void): void {
  let head = Buffer.alloc(0);
  let isOpen = false;
  let isOver = false;
  const over = (isHttp2: boolean): void => {
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
    // In an HTTP/2 frame the length comes first, and then the type.
    if (head.length > 3) over(head[3] === SETTINGS);
  });
  probe.on('end', () => over(false));
  probe.on('error', (error) => {
    if (isOpen) over(false);
    else if (!isOver) failed(error);
  });
}

/** Encodes an HTTP/2 frame for the connection as a whole. Its payload, if it has one, is zeros. */
function frame(type: number, payload: number): Buffer {
  const bytes = Buffer.alloc(FRAME_HEAD + payload);
  bytes[2] = payload;
  bytes[3] = type;
  return bytes;
}
