import type { Socket } from 'node:net';

const FRAME_HEAD = 9;
const SETTINGS = 4;
/** The longest payload of a server's first frame (RFC 9113, 4.2), and the length of one setting. */
const MAX_PAYLOAD = 16_384;
const SETTING = 6;
const MAX_CONCURRENT_STREAMS = 3;
const GOAWAY = 7;
/** The first bytes of an HTTP/2 client (RFC 9113, 3.4): a fixed text, and its settings. */
const PREFACE = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0)]);
/** A GOAWAY frame without an error: no stream was opened on the connection. */
const GOAWAY_FRAME = frame(GOAWAY, 8);

/** A socket with the field by which undici chooses the HTTP version, as `TLSSocket` has it. */
export type SpokenSocket = Socket & { alpnProtocol?: string | false | null };

/** What a server says: whether it speaks HTTP/2, and how many streams it allows then. */
export type Http2Answer = { readonly isHttp2: false } | { readonly isHttp2: true; readonly streams: number };

/**
 * Finds out whether a server speaks HTTP/2 in the clear, on a connection of its own: a server that does not takes the preface for a broken
 * request and hangs up, so a request behind it would be lost. HTTP/2 servers answer with their settings before anything else. A server that
 * only closes the connection does not speak HTTP/2 either. A silent server gets no verdict.
 *
 * @param probe A plain socket that is connecting, and that is used up.
 * @param answered Called at most once, and not after `probe` was destroyed.
 * @param failed Called instead if no connection could be opened.
 */
export function detectHttp2(
  probe: Socket,
  answered: (answer: Http2Answer) => void,
  failed: (error: Error) => void,
): void {
  let head = Buffer.alloc(0);
  let isOpen = false;
  let isOver = false;
  const finish = (answer: Http2Answer): void => {
    if (isOver) return;
    isOver = true;
    if (answer.isHttp2) probe.write(GOAWAY_FRAME);
    probe.destroySoon();
    answered(answer);
  };
  const finishWithout = (): void => finish({ isHttp2: false });
  probe.once('connect', () => {
    isOpen = true;
    probe.write(PREFACE);
  });
  probe.on('data', (chunk) => {
    if (isOver) return;
    head = Buffer.concat([head, chunk]);
    if (head.length <= 3) return;
    // The first three bytes of an HTTP/2 frame are the length of its payload; the fourth is its type.
    const payload = head.readUIntBE(0, 3);
    if (head[3] !== SETTINGS || payload > MAX_PAYLOAD) finishWithout();
    else if (head.length >= FRAME_HEAD + payload) {
      finish({ isHttp2: true, streams: streamsIn(head.subarray(FRAME_HEAD, FRAME_HEAD + payload)) });
    }
  });
  probe.on('end', finishWithout);
  probe.on('error', (error) => {
    if (isOpen) finishWithout();
    else if (!isOver) failed(error);
  });
}

/** How many streams a server's settings allow; Infinity if they do not say. */
function streamsIn(settings: Buffer): number {
  let streams = Number.POSITIVE_INFINITY;
  for (let at = 0; at + SETTING <= settings.length; at += SETTING) {
    if (settings.readUInt16BE(at) === MAX_CONCURRENT_STREAMS) streams = settings.readUInt32BE(at + 2);
  }
  return streams;
}

/** Encodes an HTTP/2 frame that belongs to no stream. Its payload, if it has one, is zeros. */
function frame(type: number, payload: number): Buffer {
  const bytes = Buffer.alloc(FRAME_HEAD + payload);
  bytes[2] = payload;
  bytes[3] = type;
  return bytes;
}
