import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import type { Certificate } from '../../servers/index.js';

/**
 * How requests are refused. `goaway`: the connection accepts none. `reset`: the stream is reset with REFUSED_STREAM. `after-use`:
 * nothing is refused, the connection is cut once the request has been read.
 */
export type Refusal = 'goaway' | 'reset' | 'after-use';

const PREFACE = 24;
const FRAME_HEAD = 9;
const HEADERS = 1;
const RST_STREAM = 3;
const SETTINGS = 4;
const PING = 6;
const GOAWAY = 7;
const ACK = 1;
const REFUSED_STREAM = 7;

/** A pod that accepts HTTP/2 connections but no requests. Writes frames itself, because Node's server would report what it processed. */
export class RefusingHttp2Pod implements AsyncDisposable {
  /** Requests that arrived, all to be refused. */
  requests = 0;
  connections = 0;
  readonly #server: Server;
  readonly #refusal: Refusal;
  readonly #sockets = new Set<Socket>();

  private constructor(certificate: Certificate | undefined, refusal: Refusal) {
    this.#refusal = refusal;
    const serve = (socket: Socket): void => this.#serve(socket);
    const tls = certificate && { ...certificate, ALPNProtocols: ['h2'] };
    this.#server = tls ? createTlsServer(tls, serve) : createServer(serve);
  }

  /** @param certificate Undefined: in the clear. */
  static async start(certificate: Certificate | undefined, refusal: Refusal): Promise<RefusingHttp2Pod> {
    const pod = new RefusingHttp2Pod(certificate, refusal);
    await new Promise<void>((resolve) => {
      pod.#server.listen(0, '127.0.0.1', resolve);
    });
    return pod;
  }

  get endpoint(): { readonly address: string; readonly port: number } {
    return { address: '127.0.0.1', port: (this.#server.address() as AddressInfo).port };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => {
      this.#server.close(resolve);
    });
  }

  #serve(socket: Socket): void {
    this.connections++;
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('error', () => {});
    socket.write(frame(SETTINGS, 0, 0));
    let read = Buffer.alloc(0);
    let skipped = false;
    socket.on('data', (chunk: Buffer) => {
      read = Buffer.concat([read, chunk]);
      if (!skipped && read.length >= PREFACE) {
        skipped = true;
        read = read.subarray(PREFACE);
      }
      while (skipped && read.length >= FRAME_HEAD && read.length >= FRAME_HEAD + read.readUIntBE(0, 3)) {
        const end = FRAME_HEAD + read.readUIntBE(0, 3);
        this.#heard(socket, read.subarray(0, end));
        read = read.subarray(end);
      }
    });
  }

  #heard(socket: Socket, bytes: Buffer): void {
    const type = bytes[3];
    const isAck = ((bytes[4] as number) & ACK) !== 0;
    const stream = bytes.readUInt32BE(5);
    if (type === SETTINGS && !isAck) socket.write(frame(SETTINGS, ACK, 0));
    if (type === PING && !isAck) socket.write(frame(PING, ACK, 0, bytes.subarray(FRAME_HEAD)));
    if (type !== HEADERS) return;
    this.requests++;
    // The last processed stream (none), and why (no error).
    if (this.#refusal === 'goaway') socket.end(frame(GOAWAY, 0, 0, Buffer.alloc(8)));
    if (this.#refusal === 'reset') socket.write(frame(RST_STREAM, 0, stream, Buffer.from([0, 0, 0, REFUSED_STREAM])));
    if (this.#refusal === 'after-use') socket.destroy();
  }
}

function frame(type: number, flags: number, stream: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(FRAME_HEAD);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}
